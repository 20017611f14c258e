import { useQuery } from "@tanstack/react-query";
import { adaptersQuery } from "@/features/adapters/api";
import { useSession } from "@/features/session/current";
import type { CallerKey } from "@/shared/api/types";
import { EVERY_MODEL } from "./rules";

/** Names to suggest for a key: what the caller may call, as far as they may see it. */
export function useModelNames(caller: CallerKey): string[] {
  const { base_model } = useSession();
  const isAll = caller.models.includes(EVERY_MODEL);
  const enabled = isAll && caller.scopes.includes("adapters.read");
  const adapters = useQuery({ ...adaptersQuery, enabled });
  return isAll ? [base_model, ...(adapters.data ?? []).map(({ name }) => name)] : caller.models;
}
