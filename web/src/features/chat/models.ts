import { useQuery } from "@tanstack/react-query";
import { api, unwrap } from "@/shared/api/client";
import type { Model } from "@/shared/api/types";

/** Every model the signed-in key may call, each under its canonical name. */
export const useModels = () =>
  useQuery({
    queryKey: ["models"],
    queryFn: async ({ signal }) => (await unwrap(api.GET("/v1/models", { signal }))).data,
  });

export const isAdapter = (model: Model) => Boolean(model.parent);

/** `acme/support:v2` pins a version of `acme/support`; only the latter is listed. */
const withoutVersion = (name: string) => name.replace(/(:v\d+|:latest|@sha256:[0-9a-f]{64})$/, "");

export const isCallable = (models: Model[], name: string) =>
  models.some(({ id }) => id === withoutVersion(name));

/** The one the address asks for if it can be called, else the first adapter, else the base. */
export function chooseModel(models: Model[], asked: string | null): string {
  if (asked !== null && isCallable(models, asked)) return asked;
  return (models.find(isAdapter) ?? models[0])?.id ?? "";
}
