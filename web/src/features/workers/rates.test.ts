import { expect, it } from "vitest";
import { aWorker } from "@/testing/samples";
import { withRates } from "./rates";

const later = (outputTokens: number, incarnation = "first") => {
  const worker = aWorker({ incarnation });
  if (!worker.load) throw new Error("the sample has a load");
  return { ...worker, load: { ...worker.load, output_tokens: outputTokens } };
};

it("divides the tokens since the last refresh by its seconds", () => {
  const before = withRates([aWorker()], 1000, undefined);
  expect(before.workers[0]?.rates).toBeNull();
  expect(withRates([later(600)], 3000, before).workers[0]?.rates).toEqual({
    promptTokensPerSecond: 0,
    outputTokensPerSecond: 50,
  });
});

it("has no rate across a restart, whose counters begin again", () => {
  const before = withRates([aWorker()], 1000, undefined);
  expect(withRates([later(20, "second")], 3000, before).workers[0]?.rates).toBeNull();
});
