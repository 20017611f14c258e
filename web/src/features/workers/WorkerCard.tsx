import type { TierLoad, Worker, WorkerLoad } from "@/shared/api/types";
import { formatBytes, formatCount } from "@/shared/format";
import { Badge, type BadgeTone } from "@/shared/ui/Badge";
import { PoolBar } from "./PoolBar";
import type { Rates } from "./rates";
import styles from "./WorkerCard.module.css";

const TONES: Record<Worker["state"], BadgeTone> = { live: "good", connecting: "warn", lost: "bad" };

type Props = { worker: Worker; rates: Rates | null };

export function WorkerCard({ worker, rates }: Props) {
  const { load } = worker;
  return (
    <article className={styles.card} aria-label={`Worker ${worker.id}`}>
      <header className={styles.header}>
        <h2>{worker.id}</h2>
        <Badge tone={TONES[worker.state]}>{worker.state}</Badge>
      </header>
      <p className={styles.about}>
        {worker.role} · pool {worker.pool} · {worker.base} · process {worker.process_id}
      </p>
      <Remark worker={worker} />
      {load && <LoadView worker={worker} load={load} rates={rates} />}
    </article>
  );
}

function Remark({ worker }: { worker: Worker }) {
  const remark = remarkOn(worker);
  return remark && <p className={styles.remark}>{remark}</p>;
}

function remarkOn({ state, is_accepting, is_drained, load }: Worker): string | null {
  if (state === "lost") return "Silent. It gets no requests; below is what it told last.";
  if (state === "connecting" || !load) return "It has not told its load yet.";
  if (is_drained) return "Its pool is being drained: it gets nothing new until that is undone.";
  return is_accepting ? null : "Shutting down: it finishes what it has and gets nothing new.";
}

function LoadView({ worker, load, rates }: Props & { load: WorkerLoad }) {
  const poolBytes = worker.pool_pages * worker.page_bytes;
  return (
    <>
      <dl className={styles.numbers}>
        <Count name="Running" value={load.running_requests} />
        <Count name="Waiting" value={load.waiting_requests} />
        <Count name="Adapters" value={load.resident_adapters} />
        <Count name="Output tokens/s" value={rates && Math.round(rates.outputTokensPerSecond)} />
      </dl>
      <PoolBar
        load={load}
        label={`Pool of ${formatCount(worker.pool_pages)} pages, ${formatBytes(poolBytes)}`}
      />
      <dl className={styles.totals}>
        <Count name="Prompt tokens computed" value={load.prompt_tokens} />
        <Count name="Prompt tokens cached" value={load.cached_tokens} />
        <Count name="Output tokens" value={load.output_tokens} />
        <Count name="Adapter loads" value={load.adapter_loads} />
        <Count name="Preemptions" value={load.preemptions} />
        {load.tiers.filter(hasBudget).map((tier) => (
          <Held key={tier.tier} tier={tier} />
        ))}
        {load.stalls > 0 && <Count name="Stalls" value={load.stalls} />}
      </dl>
    </>
  );
}

const TIER_NAMES = {
  device: "Adapters in the pool",
  host: "Adapters in memory",
  disk: "Adapters on disk",
  store: "Adapters in the store",
} as const;

/** The pool has a bar of its own, and the store no end. */
const hasBudget = ({ tier, budget_bytes }: TierLoad) => tier !== "device" && budget_bytes > 0;

function Held({ tier: { tier, bytes, hits, misses } }: { tier: TierLoad }) {
  const asked = hits + misses;
  return (
    <div>
      <dt>{TIER_NAMES[tier]}</dt>
      <dd>
        {formatBytes(bytes)}
        {asked > 0 && `, ${Math.round((100 * hits) / asked)} % hits`}
      </dd>
    </div>
  );
}

function Count({ name, value }: { name: string; value: number | null }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value === null ? "–" : formatCount(value)}</dd>
    </div>
  );
}
