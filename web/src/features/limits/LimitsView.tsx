import type { LimitsUsed } from "@/shared/api/types";
import { formatBytes, formatCount, formatMoney } from "@/shared/format";
import { Fact, Facts } from "@/shared/ui/Facts";
import { Table, type Column } from "@/shared/ui/Table";
import { BudgetMeter } from "./BudgetMeter";
import { budgetsOf, ratesOf } from "./budgets";
import styles from "./LimitsView.module.css";

export type SubjectName = (limits: Pick<LimitsUsed, "subject" | "id">) => string;

type Props = { limits: LimitsUsed[]; currency: string | null; nameOf: SubjectName };

/** The tenant's own limits and budgets, and those of its models, members and keys. */
export function LimitsView({ limits, currency, nameOf }: Props) {
  const tenants = limits.find(({ subject }) => subject === "tenant");
  const others = limits.filter(({ subject }) => subject !== "tenant");
  return (
    <>
      {tenants ? <Tenants limits={tenants} currency={currency} /> : <p>There is no limit.</p>}
      {others.length > 0 && <Others limits={others} currency={currency} nameOf={nameOf} />}
    </>
  );
}

function Tenants({ limits, currency }: { limits: LimitsUsed; currency: string | null }) {
  const budgets = budgetsOf(limits);
  return (
    <>
      {budgets.length === 0 ? (
        <p className={styles.note}>No budget: nothing is refused for its cost.</p>
      ) : (
        <div className={styles.budgets}>
          {budgets.map((budget) => (
            <BudgetMeter key={budget.period} budget={budget} currency={currency} />
          ))}
        </div>
      )}
      <Facts>
        {ratesOf(limits).map(({ name, used, limit }) => (
          <Fact key={name} name={name}>
            {formatCount(used)} of {formatCount(limit)}
          </Fact>
        ))}
        {quotasOf(limits).map(([name, words]) => (
          <Fact key={name} name={name}>
            {words}
          </Fact>
        ))}
      </Facts>
    </>
  );
}

/** What a tenant may keep; how much it keeps is told elsewhere. */
function quotasOf({ quotas }: LimitsUsed): [string, string][] {
  const quota = (name: string, limit: number | null | undefined, format: (n: number) => string) =>
    limit == null ? [] : [[name, `at most ${format(limit)}`] satisfies [string, string]];
  return [
    ...quota("Adapters", quotas?.max_adapters, formatCount),
    ...quota("Storage", quotas?.max_storage_bytes, formatBytes),
    ...quota("Open uploads", quotas?.max_open_uploads, formatCount),
    ...quota("Pinned adapters", quotas?.max_pinned_adapters, formatCount),
  ];
}

function Others({ limits, currency, nameOf }: Props) {
  const columns: Column<LimitsUsed>[] = [
    { name: "Limits of", cell: (one) => nameOf(one) },
    { name: "Kind", cell: ({ subject }) => subject },
    {
      name: "Budgets",
      cell: (one) =>
        lines(
          budgetsOf(one).map(
            ({ period, spent, hard }) =>
              `${period}: ${formatMoney(spent, currency)} of ${formatMoney(hard, currency)}`,
          ),
        ),
    },
    {
      name: "Rates",
      cell: (one) =>
        lines(
          ratesOf(one).map(
            ({ name, used, limit }) => `${name}: ${formatCount(used)} of ${formatCount(limit)}`,
          ),
        ),
    },
  ];
  return (
    <Table
      caption="Limits of models, members and keys"
      columns={columns}
      rows={limits}
      keyOf={({ subject, id }) => `${subject} ${id ?? ""}`}
    />
  );
}

const lines = (words: string[]) =>
  words.length === 0 ? (
    "–"
  ) : (
    <ul className={styles.lines}>
      {words.map((one) => (
        <li key={one}>{one}</li>
      ))}
    </ul>
  );
