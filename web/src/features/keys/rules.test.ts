import { expect, it } from "vitest";
import { aCaller, aKey } from "@/testing/tenancy";
import { mayManage, mayRotate } from "./rules";

const OTHERS = "00000000-0b0a-4908-8706-050403020100";
const caller = aCaller();

it.each([
  ["nobody's key", aKey(), true],
  ["their own key", aKey({ member_id: caller.member_id }), true],
  ["another member's key", aKey({ member_id: OTHERS }), false],
  ["a key that may more", aKey({ scopes: ["models.call", "limits.write"] }), false],
])("lets a developer manage %s: %#", (_, key, may) => {
  expect(mayManage(caller, key)).toBe(may);
});

it("lets owners end what other members made, and not take its text", () => {
  const key = aKey({ member_id: OTHERS });
  const owner = aCaller({ role: "owner" });
  expect([mayManage(owner, key), mayRotate(owner, key)]).toEqual([true, false]);
});

it("lets nobody without the scope manage anything", () => {
  expect(mayManage(aCaller({ scopes: ["models.call", "keys.read"] }), aKey())).toBe(false);
});

it("lets a key of some models manage keys of those alone", () => {
  const some = aCaller({ models: ["pirate", "shout"] });
  const may = (models: string[]) => mayManage(some, aKey({ models }));
  expect([may(["pirate"]), may(["pirate", "other"]), may(["*"])]).toEqual([true, false, false]);
});

it.each([
  ["a live key", aKey(), true],
  ["a disabled key", aKey({ state: "disabled" }), false],
  ["a key that was rotated before", aKey({ replaced_by: OTHERS }), false],
])("rotates %s: %#", (_, key, may) => {
  expect(mayRotate(caller, key)).toBe(may);
});
