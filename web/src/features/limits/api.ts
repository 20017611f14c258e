import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "@/shared/api/client";
import { everyPage } from "@/shared/api/pages";

const REFRESH_MS = 10_000;

/** Every subject of the tenant's own that has limits, and what is used of them now. */
export const useLimits = () =>
  useQuery({
    queryKey: ["limits"] as const,
    queryFn: ({ signal }) =>
      everyPage((query) => unwrap(api.GET("/api/v1/limits", { params: { query }, signal }))),
    refetchInterval: REFRESH_MS,
  });
