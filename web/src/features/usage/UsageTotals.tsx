import type { UsageTotal } from "@/shared/api/types";
import { formatBytes, formatCount, formatMoney, formatPercent } from "@/shared/format";
import { Figure, Figures } from "@/shared/ui/Figures";

const SECONDS_PER_HOUR = 3600;

export function UsageTotals({ total, currency }: { total: UsageTotal; currency: string }) {
  const { storage } = total;
  return (
    <Figures>
      <Figure name="Requests">{formatCount(total.requests)}</Figure>
      <Figure
        name="Prompt tokens"
        note={`${formatPercent(total.cached_tokens, total.prompt_tokens)} from the cache`}
      >
        {formatCount(total.prompt_tokens)}
      </Figure>
      <Figure name="Output tokens">{formatCount(total.output_tokens)}</Figure>
      {storage && (
        <Figure name="Storage" note={formatMoney(storage.cost_micros, currency)}>
          {formatBytes(storage.byte_seconds / SECONDS_PER_HOUR)}·h
        </Figure>
      )}
      <Figure name="Cost" note={storage ? "with storage" : undefined}>
        {formatMoney(total.cost_micros + (storage?.cost_micros ?? 0), currency)}
      </Figure>
    </Figures>
  );
}
