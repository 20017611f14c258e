import type { Scope } from "@/shared/api/types";

/** What each scope lets, in the order in which it is offered. */
export const MEANINGS: Record<Scope, string> = {
  "models.call": "List and call models",
  "adapters.read": "See adapters, versions, aliases and rollouts",
  "adapters.write": "Upload, change and delete them",
  "usage.read": "See what was used and what it cost",
  "limits.read": "See limits and budgets",
  "limits.write": "Set limits and budgets",
  "keys.read": "See the tenant's keys",
  "keys.write": "Make, change and end keys",
  "members.read": "See members and invitations",
  "members.write": "Invite, change and remove members",
  "webhooks.read": "See webhooks and deliveries",
  "webhooks.write": "Change webhooks",
  "audit.read": "Read the audit log",
  "tenant.write": "Change the tenant itself",
};

const ORDER = Object.keys(MEANINGS) as Scope[];

export const inOrder = (scopes: readonly Scope[]): Scope[] =>
  ORDER.filter((scope) => scopes.includes(scope));
