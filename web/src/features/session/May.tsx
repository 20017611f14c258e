import type { ReactNode } from "react";
import { useSession, type Scope } from "./current";

/** What only a session with the scope gets to see: others would be refused for using it. */
export function May({ scope, children }: { scope: Scope; children: ReactNode }) {
  return useSession().scopes.includes(scope) && children;
}
