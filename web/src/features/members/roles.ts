import type { Role } from "@/shared/api/types";

/** From the most to the least; what each lets, in a few words. */
export const ROLES: readonly (readonly [Role, string])[] = [
  ["owner", "Everything, and the tenant itself"],
  ["admin", "Everything but the tenant itself"],
  ["developer", "Adapters, keys, webhooks, models; sees the rest"],
  ["viewer", "Sees everything but the audit log, changes nothing"],
  ["inference", "Calls models, nothing else"],
];

const NAMES = ROLES.map(([role]) => role);

/** What somebody of a role may give and take: it and what is below. Of an unknown role, nothing. */
export function rolesWithin(role: string): Role[] {
  const index = NAMES.findIndex((one) => one === role);
  return index === -1 ? [] : NAMES.slice(index);
}
