import type { LimitsUsed } from "@/shared/api/types";

/** Where one budget stands. Money is in micros. */
export type Budget = {
  period: "Today" | "This month";
  hard: number;
  /** From here on the tenant's webhooks are told. */
  soft: number;
  spent: number;
  /** What running requests may yet cost. */
  reserved: number;
};

export type Standing = "free" | "soft" | "gone";

export function budgetsOf({ limits, in_use }: LimitsUsed): Budget[] {
  const percent = limits.soft_budget_percent ?? 100; // an answer always has one
  const budget = (period: Budget["period"], hard: number | null | undefined, spent: number) =>
    hard == null
      ? []
      : [{ period, hard, soft: (hard * percent) / 100, spent, reserved: in_use.reserved_micros }];
  return [
    ...budget("Today", limits.daily_budget_micros, in_use.spent_day_micros),
    ...budget("This month", limits.monthly_budget_micros, in_use.spent_month_micros),
  ];
}

export function standing({ hard, soft, spent }: Budget): Standing {
  if (spent >= hard) return "gone";
  return spent >= soft ? "soft" : "free";
}

export type Rate = { name: string; used: number; limit: number };

/** The limits that there are of what a subject does in any 60 seconds, and at once. */
export function ratesOf({ limits, in_use }: LimitsUsed): Rate[] {
  const rate = (name: string, limit: number | null | undefined, used: number) =>
    limit == null ? [] : [{ name, used, limit }];
  return [
    ...rate("Requests a minute", limits.requests_per_minute, in_use.requests),
    ...rate("Tokens a minute", limits.tokens_per_minute, in_use.tokens),
    ...rate("Prompt tokens a minute", limits.prompt_tokens_per_minute, in_use.prompt_tokens),
    ...rate("Output tokens a minute", limits.output_tokens_per_minute, in_use.output_tokens),
    ...rate("Requests at once", limits.max_concurrent_requests, in_use.running),
  ];
}
