/** Which time somebody asks for, and in buckets of which width; all of it in UTC. */
import type { BucketWidth } from "@/shared/api/types";

export const WIDTH_MS: Record<BucketWidth, number> = {
  "1m": 60_000,
  "1h": 3_600_000,
  "1d": 86_400_000,
};

const DAY_MS = WIDTH_MS["1d"];
const MOST_DAYS = 366;
/** By the hour, a week; a bar of more would be thinner than a pixel on a phone. */
const MOST_DAYS_BY_HOUR = 7;

const LENGTHS = {
  "1h": 3_600_000,
  "24h": DAY_MS,
  "7d": 7 * DAY_MS,
  "31d": 31 * DAY_MS,
  "90d": 90 * DAY_MS,
};

export type Period =
  | { kind: keyof typeof LENGTHS }
  /** Whole days, both of them included, as date fields have them. */
  | { kind: "days"; first: string; last: string };

export const PERIODS: readonly (readonly [Period["kind"], string])[] = [
  ["1h", "Last hour"],
  ["24h", "Last 24 hours"],
  ["7d", "Last 7 days"],
  ["31d", "Last 31 days"],
  ["90d", "Last 90 days"],
  ["days", "From … to …"],
];

export type Span = { start: string; end: string };

/** Why these days are no period, or null. */
export function refusalOf(period: Period): string | null {
  if (period.kind !== "days") return null;
  const days = daysOf(period.first, period.last);
  if (!(days >= 1)) return "The first day should not be after the last.";
  return days > MOST_DAYS ? `At most ${MOST_DAYS} days.` : null;
}

/** The widths that fit a period, the usual one first. */
export function widthsOf(period: Period): readonly [BucketWidth, ...BucketWidth[]] {
  if (period.kind === "1h") return ["1m"];
  if (period.kind === "24h") return ["1h"];
  if (period.kind === "7d") return ["1d", "1h"];
  if (period.kind !== "days") return ["1d"];
  return daysOf(period.first, period.last) <= MOST_DAYS_BY_HOUR ? ["1d", "1h"] : ["1d"];
}

/** From the start of a bucket to the end of one: the running one is in it. */
export function spanOf(period: Period, width: BucketWidth, nowMs: number): Span {
  if (period.kind === "days") {
    return iso(Date.parse(period.first), Date.parse(period.last) + DAY_MS);
  }
  const endMs = (Math.floor(nowMs / WIDTH_MS[width]) + 1) * WIDTH_MS[width];
  return iso(endMs - LENGTHS[period.kind], endMs);
}

const daysOf = (first: string, last: string) => (Date.parse(last) - Date.parse(first)) / DAY_MS + 1;

const iso = (startMs: number, endMs: number): Span => ({
  start: new Date(startMs).toISOString(),
  end: new Date(endMs).toISOString(),
});
