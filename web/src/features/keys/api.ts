import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "@/shared/api/client";
import { everyPage } from "@/shared/api/pages";
import type { NewKey } from "@/shared/api/types";

const keyKeys = {
  all: ["keys"] as const,
  list: () => [...keyKeys.all, "list"] as const,
  one: (id: string) => [...keyKeys.all, "one", id] as const,
  caller: () => [...keyKeys.all, "caller"] as const,
};

/** The tenant's keys, the newest first; those that have ended, too. */
export const keysQuery = queryOptions({
  queryKey: keyKeys.list(),
  queryFn: async ({ signal }) => {
    const keys = await everyPage((query) =>
      unwrap(api.GET("/api/v1/keys", { params: { query }, signal })),
    );
    return keys.toReversed();
  },
});

export const useKey = (id: string) =>
  useQuery({
    queryKey: keyKeys.one(id),
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/v1/keys/{key}", { params: { path: { key: id } }, signal })),
  });

/** What whoever is signed in may do, and so at most the keys that they make. */
export const useCaller = () =>
  useQuery({
    queryKey: keyKeys.caller(),
    queryFn: ({ signal }) => unwrap(api.GET("/api/v1/key", { signal })),
  });

/** Makes a key. Its text is in this mutation's `data` and nowhere else, so it goes with the page. */
export function useCreateKey() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: NewKey) => unwrap(api.POST("/api/v1/keys", { body })),
    gcTime: 0,
    onSuccess: () => client.invalidateQueries({ queryKey: keyKeys.all }),
  });
}

/** What can be done with a key that there is. */
export function useKeyActions(id: string) {
  const client = useQueryClient();
  const params = { path: { key: id } };
  const onSettled = () => client.invalidateQueries({ queryKey: keyKeys.all });

  const change = useMutation({
    mutationFn: (body: { name?: string; models?: string[]; is_disabled?: boolean }) =>
      unwrap(api.PATCH("/api/v1/keys/{key}", { params, body })),
    onSettled,
  });
  const rotate = useMutation({
    mutationFn: (overlapSeconds: number) =>
      unwrap(
        api.POST("/api/v1/keys/{key}/rotate", {
          params,
          body: { overlap_seconds: overlapSeconds },
        }),
      ),
    gcTime: 0,
    onSettled,
  });
  const revoke = useMutation({
    mutationFn: () => unwrap(api.DELETE("/api/v1/keys/{key}", { params })),
    onSettled,
  });
  return { change, rotate, revoke };
}
