/** Numbers and times as people read them. */

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"] as const;

export function formatBytes(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), UNITS.length - 1);
  const value = bytes / 1024 ** power;
  const digits = power > 0 && value < 100 ? 1 : 0;
  return `${value.toFixed(digits)} ${UNITS[power] ?? "bytes"}`;
}

export const formatCount = (count: number) => count.toLocaleString("en-GB");

/** Few digits where there is little room: "12k", "3.4M". */
export const formatCompact = (count: number) =>
  count.toLocaleString("en-GB", { notation: "compact", maximumFractionDigits: 1 });

/** ISO 4217's code for no currency: nothing has a price yet. */
const NO_CURRENCY = "XXX";

/** Millionths of a currency, to the last of them; of an unknown currency, just the number. */
export const formatMoney = (micros: number, currency: string | null) =>
  (micros / 1_000_000).toLocaleString("en-GB", {
    ...(currency !== null &&
      currency !== NO_CURRENCY && { style: "currency", currency, currencyDisplay: "narrowSymbol" }),
    minimumFractionDigits: 2,
    maximumFractionDigits: 6,
  });

export const formatPercent = (part: number, whole: number) =>
  `${whole > 0 ? Math.round((100 * part) / whole) : 0} %`;

const STEPS = [
  ["minute", 60],
  ["hour", 3600],
  ["day", 86_400],
] as const;

/** "just now", "4 minutes ago"; a date once it is older than a week. */
export function formatAgo(at: string, now: number): string {
  const seconds = (now - Date.parse(at)) / 1000;
  if (seconds < 60) return "just now";
  if (seconds > 7 * 86_400) return formatDate(at);
  const [unit, length] = STEPS.findLast(([, step]) => seconds >= step) ?? STEPS[0];
  const count = Math.floor(seconds / length);
  return `${count} ${unit}${count === 1 ? "" : "s"} ago`;
}

export const formatDate = (at: string) =>
  new Date(at).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });

export const formatInstant = (at: string) =>
  new Date(at).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });

/** The first characters of a digest: enough to compare by eye. */
export const shortDigest = (digest: string) => `${digest.replace(/^sha256:/, "").slice(0, 12)}…`;
