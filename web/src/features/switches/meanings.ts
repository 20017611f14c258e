/** What a switch is called, and what it stops while it is on. */
export type Meaning = { title: string; effect: string };

const FIXED: Record<string, Meaning> = {
  read_only: { title: "Read only", effect: "Tenants change nothing. Models can be called." },
  no_uploads: {
    title: "No uploads",
    effect: "No adapter comes in, and none that came in becomes callable.",
  },
};

const DRAIN_POOL = "drain_pool:";

export const drainOf = (pool: string) => DRAIN_POOL + pool;

export function meaningOf(name: string): Meaning {
  if (!name.startsWith(DRAIN_POOL)) return FIXED[name] ?? { title: name, effect: "" };
  return {
    title: `Drain the pool ${name.slice(DRAIN_POOL.length)}`,
    effect: "No new request goes to its workers. Those that run there end by themselves.",
  };
}
