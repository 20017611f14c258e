import type { Session } from "@/shared/api/types";

/**
 * Where to go after signing in: a path of this origin, never an address somebody else chose, and
 * a page of the kind that has signed in.
 */
export function nextPath(search: URLSearchParams, kind: Session["kind"]): string {
  const next = search.get("next") ?? "/";
  const isLocal = next.startsWith("/") && !next.startsWith("//") && !next.includes("\\");
  const isOperators = next.startsWith("/admin/");
  return isLocal && isOperators === (kind === "operator") ? next : "/";
}
