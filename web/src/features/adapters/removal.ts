import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "@/shared/api/client";
import { everyPage } from "@/shared/api/pages";
import { adapterKeys } from "./api";

/** What was deleted and can be restored until it is purged. */
export const deletedAdaptersQuery = queryOptions({
  queryKey: [...adapterKeys.all, "deleted"] as const,
  queryFn: ({ signal }) =>
    everyPage((page) => {
      const query = { ...page, deleted: true };
      return unwrap(api.GET("/api/v1/adapters", { params: { query }, signal }));
    }),
});

export const deletedVersionsQuery = (name: string) =>
  queryOptions({
    queryKey: [...adapterKeys.versions(name), "deleted"] as const,
    queryFn: ({ signal }) =>
      everyPage((page) => {
        const params = { path: { name }, query: { ...page, deleted: true } };
        return unwrap(api.GET("/api/v1/adapters/{name}/versions", { params, signal }));
      }),
  });

/** Takes an adapter out of service, with its versions and aliases, and back. */
export function useAdapterRemoval(name: string) {
  const client = useQueryClient();
  const params = { path: { name } };
  const onSuccess = () => client.invalidateQueries({ queryKey: adapterKeys.all });
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE("/api/v1/adapters/{name}", { params })),
    onSuccess,
  });
  const restore = useMutation({
    mutationFn: () => unwrap(api.POST("/api/v1/adapters/{name}/restore", { params })),
    onSuccess,
  });
  return { remove, restore };
}

/** The same for one version. */
export function useVersionRemoval(name: string, number: number) {
  const client = useQueryClient();
  const params = { path: { name, number } };
  const onSuccess = () => client.invalidateQueries({ queryKey: adapterKeys.all });
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE("/api/v1/adapters/{name}/versions/{number}", { params })),
    onSuccess,
  });
  const restore = useMutation({
    mutationFn: () =>
      unwrap(api.POST("/api/v1/adapters/{name}/versions/{number}/restore", { params })),
    onSuccess,
  });
  return { remove, restore };
}
