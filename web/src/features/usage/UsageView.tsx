import type { BucketWidth, Usage } from "@/shared/api/types";
import { formatCompact, formatCount, formatMoney } from "@/shared/format";
import { EmptyState } from "@/shared/ui/EmptyState";
import { amountsOf, groupsOf } from "./amounts";
import { AmountsTable } from "./AmountsTable";
import { barsOf, MOST_SERIES, type Measure } from "./chart";
import { formatBucket } from "./moments";
import { useGroupNames } from "./names";
import { GROUPS, MEASURES, type GroupBy } from "./question";
import { UsageChart } from "./UsageChart";
import { UsageTotals } from "./UsageTotals";

const BUCKET: Record<BucketWidth, string> = { "1m": "Minute", "1h": "Hour", "1d": "Day" };

/** An answer says itself how it is grouped: it may still be the one to the question before. */
export function UsageView({ usage, measure }: { usage: Usage; measure: Measure }) {
  const by: GroupBy | "" = usage.group_by[0] ?? "";
  const nameOf = useGroupNames(by);
  const groups = groupsOf(usage.data, by);
  const lines = groups.map(({ id, result, amounts }) => ({ id, name: nameOf(result), amounts }));
  if (usage.total.requests === 0) {
    return (
      <>
        <UsageTotals total={usage.total} currency={usage.currency} />
        <EmptyState title="No requests in this time">
          Every request to a model is counted here once it has ended.
        </EmptyState>
      </>
    );
  }
  return (
    <>
      <UsageTotals total={usage.total} currency={usage.currency} />
      <Chart usage={usage} measure={measure} names={lines.map(({ name }) => name)} />
      {by !== "" && (
        <AmountsTable
          caption="Usage by group"
          what={GROUPS.find(([one]) => one === by)?.[1] ?? by}
          lines={lines}
          currency={usage.currency}
        />
      )}
      <details>
        <summary>
          {BUCKET[usage.bucket_width]} by {BUCKET[usage.bucket_width].toLowerCase()}
        </summary>
        <AmountsTable
          caption="Usage over time, the newest first"
          what={BUCKET[usage.bucket_width]}
          lines={linesOverTime(usage)}
          currency={usage.currency}
        />
      </details>
    </>
  );
}

const linesOverTime = ({ data, bucket_width }: Usage) =>
  data
    .filter(({ results }) => results.length > 0)
    .toReversed()
    .map((bucket) => ({
      id: bucket.start,
      name: formatBucket(bucket.start, bucket_width),
      amounts: amountsOf(bucket),
    }));

type ChartProps = { usage: Usage; measure: Measure; names: string[] };

function Chart({ usage, measure, names }: ChartProps) {
  const by = usage.group_by[0] ?? "";
  const series = names.slice(0, MOST_SERIES);
  const others = names.length - MOST_SERIES;
  if (others > 0) series.push(others === 1 ? "1 other" : `${others} others`);
  const money = (micros: number) => formatMoney(micros, usage.currency);
  const title = MEASURES.find(([one]) => one === measure)?.[1] ?? "";
  return (
    <UsageChart
      bars={barsOf(usage.data, groupsOf(usage.data, by), by, measure)}
      series={series}
      width={usage.bucket_width}
      title={`${title} by the ${BUCKET[usage.bucket_width].toLowerCase()}`}
      format={measure === "cost" ? money : (value) => `${formatCount(value)} ${measure}`}
      formatShort={measure === "cost" ? money : formatCompact}
    />
  );
}
