import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "@/shared/api/client";
import type { Alias } from "@/shared/api/types";
import { adapterKeys } from "./api";

/** Computed from the versions, so nobody moves it. */
export const LATEST = "latest";

const aliasKeys = {
  of: (adapter: string) => [...adapterKeys.all, "aliases", adapter] as const,
  moves: (adapter: string, alias: string) => [...aliasKeys.of(adapter), "moves", alias] as const,
};

/** What an If-Match header says of the alias as it was seen; a new alias has none. */
const ifMatch = (generation: number | null) =>
  generation === null ? {} : { "If-Match": `"${generation}"` };

export const useAliases = (adapter: string) =>
  useQuery({
    queryKey: aliasKeys.of(adapter),
    queryFn: async ({ signal }) => {
      const path = { name: adapter };
      const answer = api.GET("/api/v1/adapters/{name}/aliases", { params: { path }, signal });
      return (await unwrap(answer)).data;
    },
  });

export const useAliasMoves = (adapter: string, alias: string) =>
  useQuery({
    queryKey: aliasKeys.moves(adapter, alias),
    queryFn: async ({ signal }) => {
      const params = { path: { name: adapter, alias } };
      const answer = api.GET("/api/v1/adapters/{name}/aliases/{alias}/moves", { params, signal });
      return (await unwrap(answer)).data;
    },
  });

/** Moves by compare-and-swap: an alias that has moved since it was seen is refused, not overwritten. */
export function useAliasActions(adapter: string) {
  const client = useQueryClient();
  const onSettled = () => client.invalidateQueries({ queryKey: adapterKeys.all });

  const set = useMutation({
    mutationFn: ({ alias, version, generation }: Target) =>
      unwrap(
        api.PUT("/api/v1/adapters/{name}/aliases/{alias}", {
          params: { path: { name: adapter, alias } },
          body: { version },
          headers: ifMatch(generation),
        }),
      ),
    onSettled,
  });
  const rollBack = useMutation({
    mutationFn: ({ alias, generation }: Alias) =>
      unwrap(
        api.POST("/api/v1/adapters/{name}/aliases/{alias}/rollback", {
          params: { path: { name: adapter, alias } },
          headers: ifMatch(generation),
        }),
      ),
    onSettled,
  });
  const remove = useMutation({
    mutationFn: ({ alias, generation }: Alias) =>
      unwrap(
        api.DELETE("/api/v1/adapters/{name}/aliases/{alias}", {
          params: { path: { name: adapter, alias } },
          headers: ifMatch(generation),
        }),
      ),
    onSettled,
  });
  return { set, rollBack, remove };
}

export type AliasActions = ReturnType<typeof useAliasActions>;
type Target = { alias: string; version: number; generation: number | null };
