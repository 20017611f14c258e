import { useQuery } from "@tanstack/react-query";
import { keysQuery } from "@/features/keys/api";
import { membersQuery } from "@/features/members/api";
import { useSession, type Scope } from "@/features/session/current";
import type { UsageResult } from "@/shared/api/types";
import { groupId } from "./amounts";
import type { GroupBy } from "./question";

type NameOf = (result: UsageResult) => string;

/** What groups are called: keys and members by their names, where those may be seen. */
export function useGroupNames(by: GroupBy | ""): NameOf {
  const keyName = useKeyNames(by === "key");
  const memberName = useMemberNames(by === "member");
  return (result) => {
    const id = groupId(result, by);
    if (by === "key") return id === "" ? "Without a key" : keyName(id);
    if (by === "member") return id === "" ? "Keys of no member" : memberName(id);
    if (by === "adapter") return result.adapter ?? (id === "" ? "Base model" : short(id));
    if (by === "model") return result.model ?? "Unknown";
    return "All";
  };
}

type NameOfId = (id: string) => string;

export function useKeyNames(isWanted: boolean): NameOfId {
  const keys = useQuery({ ...keysQuery, enabled: useMay("keys.read") && isWanted });
  const names = new Map(keys.data?.map(({ id, name }) => [id, name]));
  return (id) => names.get(id) ?? short(id);
}

export function useMemberNames(isWanted: boolean): NameOfId {
  const members = useQuery({ ...membersQuery, enabled: useMay("members.read") && isWanted });
  const names = new Map(members.data?.map(({ id, email }) => [id, email]));
  return (id) => names.get(id) ?? short(id);
}

const useMay = (scope: Scope) => useSession().scopes.includes(scope);

/** Enough of an id to tell it from others. */
const short = (id: string) => `${id.slice(0, 8)}…`;
