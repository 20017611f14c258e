import { expect, it } from "vitest";
import { nextPath } from "./next";

it.each([
  ["/chat?model=a", "tenant", "/chat?model=a"],
  ["/admin/workers", "operator", "/admin/workers"],
  ["/chat", "operator", "/"],
  ["/account", "operator", "/account"],
  ["/account", "tenant", "/account"],
  ["/admin/workers", "tenant", "/"],
  ["//evil.example", "tenant", "/"],
  ["/\\evil.example", "tenant", "/"],
  ["https://evil.example", "tenant", "/"],
] as const)("after signing in, %s leads a %s to %s", (next, kind, path) => {
  expect(nextPath(new URLSearchParams({ next }), kind)).toBe(path);
});
