import type { BucketWidth } from "@/shared/api/types";

const DAY: Intl.DateTimeFormatOptions = { day: "numeric", month: "short" };
const TIME: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit" };

const FORMATS: Record<BucketWidth, Intl.DateTimeFormatOptions> = {
  "1m": TIME,
  "1h": { ...DAY, ...TIME },
  "1d": DAY,
};

/** When a bucket begins, in UTC, as it is billed. */
export const formatBucket = (start: string, width: BucketWidth) =>
  new Date(start).toLocaleString("en-GB", { ...FORMATS[width], timeZone: "UTC" });
