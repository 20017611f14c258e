import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "@/shared/api/client";
import { everyPage } from "@/shared/api/pages";

const KEY = ["switches"] as const;
const REFRESH_MS = 10_000;

export const useSwitches = () =>
  useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) =>
      everyPage((query) =>
        unwrap(api.GET("/api/v1/admin/switches", { params: { query }, signal })),
      ),
    refetchInterval: REFRESH_MS,
  });

export function useTurn(name: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (order: { is_on: boolean; reason: string }) =>
      unwrap(api.PUT("/api/v1/admin/switches/{name}", { params: { path: { name } }, body: order })),
    onSettled: () => client.invalidateQueries({ queryKey: KEY }),
  });
}
