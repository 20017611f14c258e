/** Sums of usage, by group and by bucket. */
import type { Usage, UsageBucket, UsageResult, UsageTotal } from "@/shared/api/types";
import type { GroupBy } from "./question";

export type Amounts = Omit<UsageTotal, "storage">;

export type Group = { id: string; result: UsageResult; amounts: Amounts };

export const NOTHING: Amounts = {
  requests: 0,
  prompt_tokens: 0,
  uncached_tokens: 0,
  cached_tokens: 0,
  output_tokens: 0,
  cost_micros: 0,
};

export const add = (a: Amounts, b: Amounts): Amounts => ({
  requests: a.requests + b.requests,
  prompt_tokens: a.prompt_tokens + b.prompt_tokens,
  uncached_tokens: a.uncached_tokens + b.uncached_tokens,
  cached_tokens: a.cached_tokens + b.cached_tokens,
  output_tokens: a.output_tokens + b.output_tokens,
  cost_micros: a.cost_micros + b.cost_micros,
});

export const amountsOf = ({ results }: Pick<UsageBucket, "results">): Amounts =>
  results.reduce<Amounts>(add, NOTHING);

/** What tells the groups apart; empty for what belongs to none, a call without a key, say. */
export function groupId(result: UsageResult, by: GroupBy | ""): string {
  if (by === "key") return result.api_key_id ?? "";
  if (by === "member") return result.member_id ?? "";
  if (by === "model") return result.model ?? "";
  if (by === "adapter") return result.adapter_id ?? "";
  return "";
}

/** The groups of a whole period, the one that used the most tokens first. */
export function groupsOf(buckets: readonly UsageBucket[], by: GroupBy | ""): Group[] {
  const groups = new Map<string, Group>();
  for (const result of buckets.flatMap(({ results }) => results)) {
    const id = groupId(result, by);
    const amounts = groups.get(id)?.amounts ?? NOTHING;
    groups.set(id, { id, result, amounts: add(amounts, result) });
  }
  return [...groups.values()].toSorted((a, b) => tokensOf(b.amounts) - tokensOf(a.amounts));
}

export const tokensOf = ({ prompt_tokens, output_tokens }: Amounts) =>
  prompt_tokens + output_tokens;

/** Pages of one answer as one. */
export function joined(pages: readonly [Usage, ...Usage[]]): Usage {
  const [first, ...others] = pages;
  return {
    ...first,
    data: pages.flatMap(({ data }) => data),
    total: others.reduce<UsageTotal>((sum, { total }) => addTotal(sum, total), first.total),
    next_cursor: null,
  };
}

const addTotal = (a: UsageTotal, b: UsageTotal): UsageTotal => ({
  ...add(a, b),
  storage: a.storage &&
    b.storage && {
      byte_seconds: a.storage.byte_seconds + b.storage.byte_seconds,
      cost_micros: a.storage.cost_micros + b.storage.cost_micros,
    },
});
