import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "@/shared/api/client";
import type { Model } from "@/shared/api/types";

/** Every model the signed-in key may call. */
export const useModels = () =>
  useQuery({
    queryKey: ["models"],
    queryFn: async ({ signal }) => (await unwrap(api.GET("/v1/models", { signal }))).data,
  });

/** The one the address asks for if it can be called, else the first adapter, else the base. */
export function chooseModel(models: Model[], asked: string | null): string {
  const known = models.find(({ id }) => id === asked);
  return (known ?? models.find(({ parent }) => parent !== null) ?? models[0])?.id ?? "";
}
