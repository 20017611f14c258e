/** Where to go after signing in: a path of this origin, never an address somebody else chose. */
export function nextPath(search: URLSearchParams): string {
  const next = search.get("next") ?? "/";
  const isLocal = next.startsWith("/") && !next.startsWith("//") && !next.includes("\\");
  return isLocal ? next : "/";
}
