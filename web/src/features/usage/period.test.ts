import { expect, it } from "vitest";
import { refusalOf, spanOf, widthsOf, type Period } from "./period";
import { readQuestion, writeQuestion } from "./question";

const NOW = Date.parse("2026-03-10T12:34:56Z");
const days = (first: string, last: string): Period => ({ kind: "days", first, last });

it.each([
  [{ kind: "1h" }, "1m", "2026-03-10T11:35:00.000Z", "2026-03-10T12:35:00.000Z"],
  [{ kind: "24h" }, "1h", "2026-03-09T13:00:00.000Z", "2026-03-10T13:00:00.000Z"],
  [{ kind: "7d" }, "1d", "2026-03-04T00:00:00.000Z", "2026-03-11T00:00:00.000Z"],
  [days("2026-02-28", "2026-03-01"), "1d", "2026-02-28T00:00:00.000Z", "2026-03-02T00:00:00.000Z"],
] as const)("%j by %s is whole buckets, the running one included", (period, width, start, end) => {
  expect(spanOf(period, width, NOW)).toEqual({ start, end });
});

it.each([
  [days("2026-03-02", "2026-03-01"), "The first day should not be after the last."],
  [days("2024-03-01", "2026-03-01"), "At most 366 days."],
  [days("2026-03-01", "2026-03-01"), null],
  [{ kind: "90d" }, null],
] as const)("refuses what is no period: %j", (period, words) => {
  expect(refusalOf(period)).toBe(words);
});

it("offers hours for up to a week", () => {
  expect(widthsOf(days("2026-03-01", "2026-03-07"))).toEqual(["1d", "1h"]);
  expect(widthsOf(days("2026-03-01", "2026-03-08"))).toEqual(["1d"]);
});

it.each([
  "period=7d&bucket=1h&by=key&chart=cost",
  "period=days&from=2026-03-01&to=2026-03-02&bucket=1d",
])("keeps the question in the address: %s", (address) => {
  const question = readQuestion(new URLSearchParams(address));
  expect(new URLSearchParams(writeQuestion(question)).toString()).toBe(address);
});

it.each(["", "period=nope&by=tenant", "period=days&from=2026-03&to=x", "bucket=1m"])(
  "takes an address that it does not know for the usual question: %s",
  (address) => {
    const usual = { period: { kind: "7d" }, width: "1d", by: "", measure: "tokens" };
    expect(readQuestion(new URLSearchParams(address))).toEqual(usual);
  },
);
