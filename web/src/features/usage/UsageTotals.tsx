import type { UsageTotal } from "@/shared/api/types";
import { formatCount, formatMoney, formatPercent } from "@/shared/format";
import { Figure, Figures } from "@/shared/ui/Figures";

const BYTE_SECONDS_PER_GIB_HOUR = 2 ** 30 * 3600;

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
          {(storage.byte_seconds / BYTE_SECONDS_PER_GIB_HOUR).toFixed(2)} GiB h
        </Figure>
      )}
      <Figure name="Cost" note={storage ? "with storage" : undefined}>
        {formatMoney(total.cost_micros + (storage?.cost_micros ?? 0), currency)}
      </Figure>
    </Figures>
  );
}
