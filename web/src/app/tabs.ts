import type { Scope, Session } from "@/shared/api/types";

export type Tab = { path: string; name: string; scope?: Scope };

const TABS: Record<Session["kind"], readonly Tab[]> = {
  tenant: [
    { path: "/adapters", name: "Adapters", scope: "adapters.read" },
    { path: "/upload", name: "Upload", scope: "adapters.write" },
    { path: "/chat", name: "Chat", scope: "models.call" },
    { path: "/keys", name: "Keys", scope: "keys.read" },
    { path: "/usage", name: "Usage", scope: "usage.read" },
    { path: "/members", name: "Members", scope: "members.read" },
  ],
  operator: [
    { path: "/admin/workers", name: "Workers" },
    { path: "/admin/tenants", name: "Tenants" },
    { path: "/admin/switches", name: "Switches" },
  ],
};

/** The pages that are offered to a session: those it could use. */
export const tabsOf = ({ kind, scopes }: Session): Tab[] =>
  TABS[kind].filter(({ scope }) => scope === undefined || scopes.includes(scope));
