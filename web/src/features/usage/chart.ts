/** What the chart draws: bars of stacked parts under a round number. */
import type { UsageBucket } from "@/shared/api/types";
import { groupId, tokensOf, type Amounts, type Group } from "./amounts";
import type { GroupBy } from "./question";

export type Measure = "tokens" | "requests" | "cost";

const VALUE: Record<Measure, (amounts: Amounts) => number> = {
  tokens: tokensOf,
  requests: ({ requests }) => requests,
  cost: ({ cost_micros }) => cost_micros,
};

/** As many colours as can be told apart; what is left is one more series. */
export const MOST_SERIES = 5;

/** One bar: the total, and its parts in the order of the series. */
export type Bar = { start: string; total: number; parts: number[] };

export function barsOf(
  buckets: readonly UsageBucket[],
  groups: readonly Group[],
  by: GroupBy | "",
  measure: Measure,
): Bar[] {
  const named = groups.slice(0, MOST_SERIES).map(({ id }) => id);
  const seriesOf = (id: string) => {
    const index = named.indexOf(id);
    return index === -1 ? named.length : index;
  };
  const series = Math.min(groups.length, MOST_SERIES + 1);
  return buckets.map(({ start, results }) => {
    const parts = Array.from({ length: series }, () => 0);
    for (const result of results) {
      const index = seriesOf(groupId(result, by));
      parts[index] = (parts[index] ?? 0) + VALUE[measure](result);
    }
    return { start, parts, total: parts.reduce((sum, part) => sum + part, 0) };
  });
}

/** The least of 1, 2 and 5 times a power of ten that nothing is above. */
export function roundTop(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5].find((step) => step * power >= value) ?? 10) * power;
}
