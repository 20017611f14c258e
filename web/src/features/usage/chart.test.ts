import { expect, it } from "vitest";
import { aResult, aUsage } from "@/testing/tenancy";
import { groupsOf, joined } from "./amounts";
import { barsOf, roundTop } from "./chart";

const byAdapter = (tokens: number[]) =>
  tokens.map((output_tokens, index) =>
    aResult({ adapter_id: `a${index}`, prompt_tokens: 0, output_tokens }),
  );

it("stacks the largest groups, and all others as one", () => {
  const { data } = aUsage(byAdapter([1, 70, 60, 50, 40, 30, 2]), { group_by: ["adapter"] });
  const bars = barsOf(data, groupsOf(data, "adapter"), "adapter", "tokens");
  expect(bars.map(({ parts }) => parts)).toEqual([
    [70, 60, 50, 40, 30, 3],
    [0, 0, 0, 0, 0, 0],
  ]);
  expect(bars.map(({ total }) => total)).toEqual([253, 0]);
});

it("sums a group over all buckets", () => {
  const { data } = aUsage([aResult(), aResult({ output_tokens: 7 })]);
  expect(groupsOf(data, "")).toMatchObject([
    { id: "", amounts: { requests: 2, output_tokens: 12 } },
  ]);
});

it("joins pages to one answer", () => {
  const storage = { byte_seconds: 5, cost_micros: 1 };
  const page = aUsage([aResult()]);
  const stored = { ...page, total: { ...page.total, storage } };
  const { data, total, next_cursor } = joined([{ ...stored, next_cursor: "x" }, stored]);
  expect(data).toHaveLength(4);
  expect(total).toMatchObject({
    requests: 2,
    cost_micros: 1040,
    storage: { byte_seconds: 10, cost_micros: 2 },
  });
  expect(next_cursor).toBeNull();
});

it.each([
  [0, 1],
  [1, 1],
  [3, 5],
  [51, 100],
  [100, 100],
  [1001, 2000],
])("ends the axis of %i at %i", (value, top) => {
  expect(roundTop(value)).toBe(top);
});
