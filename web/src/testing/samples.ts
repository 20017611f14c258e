import type {
  Adapter,
  Alias,
  Rollout,
  Session,
  Upload,
  Version,
  Worker,
  WorkerLoad,
} from "@/shared/api/types";

export const TENANT: Session = {
  kind: "tenant",
  tenant: "acme",
  tenant_state: "active",
  base_model: "smollm2-135m-instruct",
  role: "owner",
  scopes: [
    "adapters.read",
    "adapters.write",
    "keys.read",
    "keys.write",
    "limits.read",
    "members.read",
    "members.write",
    "models.call",
    "usage.read",
  ],
  person: null,
  places: [],
};
export const OPERATOR: Session = {
  ...TENANT,
  kind: "operator",
  scopes: [],
  tenant: null,
  tenant_state: null,
  role: "admin",
};

export const aVersion = (change: Partial<Version> = {}): Version => ({
  adapter: "support",
  version: 1,
  status: "ready",
  reasons: [],
  digest: `sha256:${"ab".repeat(32)}`,
  size_bytes: 2_000_000,
  max_rank: 8,
  model: "acme/support:v1",
  quarantine_reason: null,
  created_at: "2026-01-02T03:04:05Z",
  deleted_at: null,
  ...change,
});

export const anAdapter = (change: Partial<Adapter> = {}): Adapter => ({
  name: "support",
  base: "smollm2-135m-instruct",
  created_at: "2026-01-02T03:04:05Z",
  deleted_at: null,
  latest_version: aVersion(),
  ...change,
});

export const anAlias = (change: Partial<Alias> = {}): Alias => ({
  adapter: "support",
  alias: "prod",
  version: 1,
  generation: 4,
  model: "acme/support:prod",
  moved_at: "2026-01-02T03:04:05Z",
  ...change,
});

export const aRollout = (change: Partial<Rollout> = {}): Rollout => ({
  id: "5d3c2b1a-0b0a-4908-8706-050403020100",
  adapter: "support",
  alias: "prod",
  stable_version: 1,
  version: 2,
  weight: 10,
  status: "running",
  error_rate_limit: 5,
  window_seconds: 300,
  minimum_requests: 20,
  observed_requests: 40,
  observed_errors: 1,
  created_at: "2026-01-02T03:04:05Z",
  ended_at: null,
  end_reason: null,
  ...change,
});

export const anUpload = (change: Partial<Upload> = {}): Upload => ({
  id: "0f0e0d0c-0b0a-4908-8706-050403020100",
  adapter: "support",
  status: "pending",
  files: [],
  version: null,
  error: null,
  expires_at: "2026-01-03T03:04:05Z",
  created_at: "2026-01-02T03:04:05Z",
  ...change,
});

export const LOAD: WorkerLoad = {
  running_requests: 3,
  waiting_requests: 1,
  free_pages: 45,
  kv_pages: 30,
  adapter_pages: 10,
  resident_adapters: 2,
  prompt_tokens: 1000,
  output_tokens: 500,
  preemptions: 0,
  adapter_loads: 2,
  cached_tokens: 400,
  cached_pages: 15,
  stalls: 0,
  tiers: [
    {
      tier: "host",
      hits: 3,
      misses: 1,
      bytes: 2 * 1024 ** 2,
      budget_bytes: 512 * 1024 ** 2,
      evictions: 0,
      load_seconds: 0.5,
      joins: 0,
      corrupt: 0,
    },
  ],
};

export const aWorker = (change: Partial<Worker> = {}): Worker => ({
  id: "worker-0",
  pool: "default",
  role: "unified",
  base: "smollm2-135m-instruct",
  state: "live",
  is_accepting: true,
  is_drained: false,
  incarnation: "first",
  process_id: 4100,
  in_flight: 0,
  pool_pages: 100,
  page_bytes: 1024,
  load: LOAD,
  ...change,
});
