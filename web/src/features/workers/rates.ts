import type { Worker } from "@/shared/api/types";

export type Rates = { promptTokensPerSecond: number; outputTokensPerSecond: number };

/** The workers at one moment; a rate is null where there is nothing to compare with. */
export type Sample = { atMs: number; workers: { worker: Worker; rates: Rates | null }[] };

export function withRates(workers: Worker[], atMs: number, before: Sample | undefined): Sample {
  return {
    atMs,
    workers: workers.map((worker) => ({ worker, rates: ratesOf(worker, atMs, before) })),
  };
}

function ratesOf(now: Worker, atMs: number, before: Sample | undefined): Rates | null {
  const then = before?.workers.find(({ worker }) => worker.id === now.id)?.worker;
  // The counters of a new incarnation begin again at zero.
  if (!before || !now.load || !then?.load || then.incarnation !== now.incarnation) return null;
  const seconds = (atMs - before.atMs) / 1000;
  if (seconds <= 0) return null;
  return {
    promptTokensPerSecond: (now.load.prompt_tokens - then.load.prompt_tokens) / seconds,
    outputTokensPerSecond: (now.load.output_tokens - then.load.output_tokens) / seconds,
  };
}
