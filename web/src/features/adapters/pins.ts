import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "@/shared/api/client";
import { ApiError } from "@/shared/api/problem";
import { adapterKeys } from "./api";

const pinKey = (name: string) => [...adapterKeys.all, "pin", name] as const;

/** Since when the adapter is pinned; null is that it is not, which is an answer. */
export const usePin = (name: string) =>
  useQuery({
    queryKey: pinKey(name),
    queryFn: async ({ signal }) => {
      const params = { path: { name } };
      try {
        const pin = await unwrap(api.GET("/api/v1/adapters/{name}/pin", { params, signal }));
        return pin.created_at;
      } catch (error) {
        if (error instanceof ApiError && error.failure === "missing") return null;
        throw error;
      }
    },
  });

export function useSetPin(name: string) {
  const client = useQueryClient();
  const params = { path: { name } };
  return useMutation({
    mutationFn: async (isPinned: boolean) => {
      if (isPinned) await unwrap(api.PUT("/api/v1/adapters/{name}/pin", { params }));
      else await unwrap(api.DELETE("/api/v1/adapters/{name}/pin", { params }));
    },
    onSettled: () => client.invalidateQueries({ queryKey: pinKey(name) }),
  });
}
