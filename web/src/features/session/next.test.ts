import { expect, it } from "vitest";
import { nextPath } from "./next";

it.each([
  ["/chat?model=a", "/chat?model=a"],
  ["//evil.example", "/"],
  ["/\\evil.example", "/"],
  ["https://evil.example", "/"],
])("after signing in, %s leads to %s", (next, path) => {
  expect(nextPath(new URLSearchParams({ next }))).toBe(path);
});
