/** When a new key ends, as it is chosen and as it is sent. */

const DAY_MS = 86_400_000;

export type Lifetime = "" | "7" | "30" | "90" | "365";

/** A key that is made with a key ends with that one, where it says nothing else. */
export const lifetimes = (isBounded: boolean): (readonly [Lifetime, string])[] => [
  ["", isBounded ? "With your own key" : "Never"],
  ["7", "In 7 days"],
  ["30", "In 30 days"],
  ["90", "In 90 days"],
  ["365", "In a year"],
];

export const endOf = (lifetime: Lifetime, nowMs: number): string | null =>
  lifetime === "" ? null : new Date(nowMs + Number(lifetime) * DAY_MS).toISOString();
