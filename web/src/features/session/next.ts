import type { Session } from "@/shared/api/types";

/** Where to go after signing in: a path of this origin, never an address somebody else chose. */
export function localPath(search: URLSearchParams): string {
  const next = search.get("next") ?? "/";
  return next.startsWith("/") && !next.startsWith("//") && !next.includes("\\") ? next : "/";
}

/** The same, and a page that those of the kind have. */
export function nextPath(search: URLSearchParams, kind: Session["kind"]): string {
  const next = localPath(search);
  if (next === "/account") return next;
  return next.startsWith("/admin/") === (kind === "operator") ? next : "/";
}
