import { expect, it } from "vitest";
import { formatAgo, formatBytes, shortDigest } from "./format";

it.each([
  [0, "0 bytes"],
  [1023, "1023 bytes"],
  [1024, "1.0 KiB"],
  [967 * 1024, "967 KiB"],
  [1.5 * 1024 ** 3, "1.5 GiB"],
])("writes %i bytes as %s", (bytes, words) => {
  expect(formatBytes(bytes)).toBe(words);
});

const NOW = Date.parse("2026-01-10T00:00:00Z");
it.each([
  ["2026-01-10T00:00:05Z", "just now"],
  ["2026-01-09T23:59:00Z", "1 minute ago"],
  ["2026-01-09T21:00:00Z", "3 hours ago"],
  ["2026-01-08T00:00:00Z", "2 days ago"],
  ["2026-01-01T12:00:00Z", "1 Jan 2026"],
])("writes %s as %s", (at, words) => {
  expect(formatAgo(at, NOW)).toBe(words);
});

it("shows the first twelve characters of a digest", () => {
  expect(shortDigest(`sha256:${"abcdef".repeat(10)}`)).toBe("abcdefabcdef…");
});
