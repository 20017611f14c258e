import { expect, it } from "vitest";
import type { Model } from "@/shared/api/types";
import { chooseModel } from "./models";

const model = (id: string, parent: string | null): Model => ({
  id,
  object: "model",
  created: 0,
  owned_by: "x",
  parent,
});
const MODELS = [model("base", null), model("acme/support", "base"), model("acme/shout", "base")];

it.each([
  ["acme/shout", "acme/shout"],
  ["acme/shout:v2", "acme/shout:v2"],
  ["base", "base"],
  ["globex/support", "acme/support"],
  [null, "acme/support"],
])("asked for %s, chooses %s", (asked, chosen) => {
  expect(chooseModel(MODELS, asked)).toBe(chosen);
});

it("chooses the base where there is no adapter", () => {
  expect(chooseModel([model("base", null)], null)).toBe("base");
});
