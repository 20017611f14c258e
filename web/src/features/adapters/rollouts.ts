import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "@/shared/api/client";
import { adapterKeys } from "./api";

const POLL_MS = 5000;

const rolloutKeys = {
  of: (adapter: string) => [...adapterKeys.all, "rollouts", adapter] as const,
};

/** Newest first; while one is open its errors are counted, so it is asked for again. */
export const useRollouts = (adapter: string) =>
  useQuery({
    queryKey: rolloutKeys.of(adapter),
    queryFn: async ({ signal }) => {
      const path = { name: adapter };
      const answer = api.GET("/api/v1/adapters/{name}/rollouts", { params: { path }, signal });
      return (await unwrap(answer)).data;
    },
    refetchInterval: ({ state }) =>
      state.data?.some(({ ended_at }) => ended_at === null) ? POLL_MS : false,
  });

/** What can be done with a rollout; each answers the rollout as it has become. */
export function useRolloutActions(adapter: string) {
  const client = useQueryClient();
  const onSettled = () => client.invalidateQueries({ queryKey: adapterKeys.all });
  const pathOf = (rollout_id: string) => ({ path: { name: adapter, rollout_id } });

  const start = useMutation({
    mutationFn: (plan: { alias: string; version: number; weight: number }) =>
      unwrap(
        api.POST("/api/v1/adapters/{name}/rollouts", {
          params: { path: { name: adapter } },
          body: plan,
        }),
      ),
    onSettled,
  });
  const change = useMutation({
    mutationFn: ({ id, weight }: { id: string; weight: number }) =>
      unwrap(
        api.PATCH("/api/v1/adapters/{name}/rollouts/{rollout_id}", {
          params: pathOf(id),
          body: { weight },
        }),
      ),
    onSettled,
  });
  const pause = useMutation({
    mutationFn: (id: string) =>
      unwrap(
        api.POST("/api/v1/adapters/{name}/rollouts/{rollout_id}/pause", { params: pathOf(id) }),
      ),
    onSettled,
  });
  const resume = useMutation({
    mutationFn: (id: string) =>
      unwrap(
        api.POST("/api/v1/adapters/{name}/rollouts/{rollout_id}/resume", { params: pathOf(id) }),
      ),
    onSettled,
  });
  const promote = useMutation({
    mutationFn: (id: string) =>
      unwrap(
        api.POST("/api/v1/adapters/{name}/rollouts/{rollout_id}/promote", { params: pathOf(id) }),
      ),
    onSettled,
  });
  const rollBack = useMutation({
    mutationFn: (id: string) =>
      unwrap(
        api.POST("/api/v1/adapters/{name}/rollouts/{rollout_id}/roll-back", {
          params: pathOf(id),
        }),
      ),
    onSettled,
  });
  return { start, change, pause, resume, promote, rollBack };
}

export type RolloutActions = ReturnType<typeof useRolloutActions>;
