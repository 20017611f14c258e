import { useQuery, useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "@/shared/api/client";
import type { Worker } from "@/shared/api/types";
import { withRates, type Sample } from "./rates";

const REFRESH_MS = 2000;
const KEY = ["workers"] as const;

/** The workers now, with token rates since the refresh before. */
export function useWorkers() {
  const client = useQueryClient();
  return useQuery({
    queryKey: KEY,
    queryFn: async ({ signal }): Promise<Sample> => {
      const { data } = await unwrap(api.GET("/api/v1/admin/workers", { signal }));
      return withRates(byName(data), performance.now(), client.getQueryData<Sample>(KEY));
    },
    refetchInterval: REFRESH_MS,
  });
}

const byName = (workers: Worker[]) =>
  workers.toSorted((a, b) => a.id.localeCompare(b.id, "en", { numeric: true }));
