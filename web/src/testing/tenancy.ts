/** Keys, people, limits, usage, tenants and switches, as the API tells them. */
import { add, NOTHING, type Amounts } from "@/features/usage/amounts";
import type {
  CallerKey,
  Key,
  LimitsUsed,
  Member,
  OwnSession,
  Switch,
  TenantDetails,
  Usage,
  UsageResult,
} from "@/shared/api/types";

export const aCaller = (change: Partial<CallerKey> = {}): CallerKey => ({
  kind: "person",
  id: null,
  label: "ada@example.com",
  tenant: "acme",
  member_id: "7d6c5b4a-0b0a-4908-8706-050403020100",
  role: "developer",
  scopes: ["models.call", "adapters.read", "keys.read", "keys.write"],
  models: ["*"],
  expires_at: null,
  last_used_at: null,
  ...change,
});

export const aKey = (change: Partial<Key> = {}): Key => ({
  id: "1a2b3c4d-0b0a-4908-8706-050403020100",
  name: "nightly batch",
  label: "lpx_ab…yz",
  state: "live",
  expires_at: null,
  disabled_at: null,
  revoked_at: null,
  last_used_at: null,
  replaced_by: null,
  created_at: "2026-01-02T03:04:05Z",
  member_id: null,
  role: "developer",
  scopes: ["models.call"],
  models: ["*"],
  ...change,
});

export const aResult = (change: Partial<UsageResult> = {}): UsageResult => ({
  requests: 1,
  prompt_tokens: 10,
  uncached_tokens: 6,
  cached_tokens: 4,
  output_tokens: 5,
  cost_micros: 520,
  api_key_id: null,
  member_id: null,
  model: null,
  adapter_id: null,
  adapter: null,
  version: null,
  ...change,
});

/** Two days: one on which the results were used, one without any. */
export const aUsage = (results: UsageResult[], change: Partial<Usage> = {}): Usage => ({
  bucket_width: "1d",
  start: "2026-03-01T00:00:00Z",
  end: "2026-03-03T00:00:00Z",
  group_by: [],
  currency: "USD",
  data: [
    { start: "2026-03-01T00:00:00Z", end: "2026-03-02T00:00:00Z", results, storage: null },
    { start: "2026-03-02T00:00:00Z", end: "2026-03-03T00:00:00Z", results: [], storage: null },
  ],
  total: { ...results.reduce<Amounts>(add, NOTHING), storage: null },
  next_cursor: null,
  ...change,
});

export const someLimits = (change: Partial<LimitsUsed> = {}): LimitsUsed => ({
  subject: "tenant",
  id: null,
  limits: {
    soft_budget_percent: 80,
    daily_budget_micros: 5_000_000,
    requests_per_minute: 60,
    max_concurrent_requests: 32,
  },
  quotas: { max_adapters: 10 },
  effective: {
    requests_per_minute: 60,
    tokens_per_minute: null,
    prompt_tokens_per_minute: null,
    output_tokens_per_minute: null,
    max_concurrent_requests: 32,
    daily_budget_micros: 5_000_000,
    monthly_budget_micros: null,
  },
  in_use: {
    requests: 3,
    tokens: 0,
    prompt_tokens: 0,
    output_tokens: 0,
    running: 1,
    reserved_micros: 250_000,
    spent_day_micros: 4_200_000,
    spent_month_micros: 4_200_000,
  },
  ...change,
});

export const aMember = (change: Partial<Member> = {}): Member => ({
  id: "7d6c5b4a-0b0a-4908-8706-050403020100",
  email: "ada@example.com",
  display_name: "Ada",
  role: "developer",
  source: "invitation",
  is_disabled: false,
  last_signed_in_at: null,
  created_at: "2026-01-02T03:04:05Z",
  ...change,
});

export const anOwnSession = (change: Partial<OwnSession> = {}): OwnSession => ({
  id: "2b3c4d5e-0b0a-4908-8706-050403020100",
  tenant: "acme",
  method: "password",
  address: "192.0.2.7",
  user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
  created_at: "2026-01-02T03:04:05Z",
  expires_at: "2026-01-02T15:04:05Z",
  is_current: false,
  ...change,
});

export const aTenant = (change: Partial<TenantDetails> = {}): TenantDetails => ({
  id: "3c4d5e6f-0b0a-4908-8706-050403020100",
  name: "acme",
  display_name: "Acme Ltd",
  state: "active",
  state_reason: null,
  state_changed_at: null,
  max_concurrent_requests: 32,
  created_at: "2026-01-02T03:04:05Z",
  deletion: null,
  ...change,
});

export const aSwitch = (change: Partial<Switch> = {}): Switch => ({
  name: "read_only",
  is_on: false,
  reason: "",
  changed_by: "migration",
  changed_at: "2026-01-02T03:04:05Z",
  ...change,
});
