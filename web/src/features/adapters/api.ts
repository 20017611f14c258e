import { queryOptions, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "@/shared/api/client";
import { everyPage } from "@/shared/api/pages";
import type { Version } from "@/shared/api/types";

const POLL_MS = 1000;

export const adapterKeys = {
  all: ["adapters"] as const,
  list: () => [...adapterKeys.all, "list"] as const,
  versions: (name: string) => [...adapterKeys.all, "versions", name] as const,
  version: (name: string, number: number) => [...adapterKeys.all, "version", name, number] as const,
};

/** Neither ready nor rejected: its status will still move. */
export const isMoving = (version: Pick<Version, "status"> | null | undefined) =>
  version?.status === "uploaded" || version?.status === "validating";

export const adaptersQuery = queryOptions({
  queryKey: adapterKeys.list(),
  queryFn: ({ signal }) =>
    everyPage((query) => unwrap(api.GET("/api/v1/adapters", { params: { query }, signal }))),
});

export const useAdapters = () =>
  useQuery({
    ...adaptersQuery,
    refetchInterval: ({ state }) =>
      state.data?.some((adapter) => isMoving(adapter.latest_version)) ? POLL_MS : false,
  });

/** Newest first. */
export const useVersions = (name: string) =>
  useQuery({
    queryKey: adapterKeys.versions(name),
    queryFn: async ({ signal }) => {
      const path = { name };
      const versions = await everyPage((query) =>
        unwrap(api.GET("/api/v1/adapters/{name}/versions", { params: { path, query }, signal })),
      );
      return versions.toSorted((a, b) => b.version - a.version);
    },
    refetchInterval: ({ state }) => (state.data?.some(isMoving) ? POLL_MS : false),
  });

/** One version, asked for again until it is ready or rejected. */
export const versionQuery = (name: string, number: number) =>
  queryOptions({
    queryKey: adapterKeys.version(name, number),
    queryFn: ({ signal }) => {
      const path = { name, number };
      return unwrap(
        api.GET("/api/v1/adapters/{name}/versions/{number}", { params: { path }, signal }),
      );
    },
    refetchInterval: ({ state }) =>
      state.data === undefined || isMoving(state.data) ? POLL_MS / 2 : false,
  });
