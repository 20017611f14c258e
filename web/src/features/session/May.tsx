import type { ReactNode } from "react";
import { useSession, type Scope } from "./current";

/** What only a session with the scope gets to see: others would be refused for using it. */
export function May({ scope, children }: { scope: Scope; children: ReactNode }) {
  return useSession().scopes.includes(scope) && children;
}

/** What only operators get to see who may change things, not just look at them. */
export function MayOperate({ children }: { children: ReactNode }) {
  const { kind, role } = useSession();
  return kind === "operator" && role === "admin" && children;
}
