import { screen } from "@testing-library/react";
import { expect, it } from "vitest";
import { open } from "@/testing/page";
import { aWorker, LOAD, OPERATOR } from "@/testing/samples";
import { json, problem, serve } from "@/testing/server";

const SESSION = { "GET /api/v1/session": json(OPERATOR) };
const WORKERS = "GET /api/v1/admin/workers";

it("shows whose the pages of a worker's pool are", async () => {
  serve({ ...SESSION, [WORKERS]: json({ data: [aWorker()] }) });
  open("/admin/workers");
  const card = await screen.findByRole("article", { name: "Worker worker-0" });
  expect(card.textContent).toMatch(/KV in use 30.*Adapters 10.*Cached prefixes 15.*Free 45/);
  expect(card.textContent).toMatch(/Prompt tokens cached400/);
  expect(card.textContent).toMatch(/Adapters in memory2.0 MiB, 75 % hits/);
});

it("speaks of stalls only where there were any", async () => {
  const calm = aWorker({ id: "calm" });
  const stalled = aWorker({ id: "stalled", load: { ...LOAD, stalls: 2 } });
  serve({ ...SESSION, [WORKERS]: json({ data: [calm, stalled] }) });
  open("/admin/workers");
  const textOf = async (name: string) =>
    (await screen.findByRole("article", { name: `Worker ${name}` })).textContent;
  expect(await textOf("stalled")).toMatch(/Stalls2/);
  expect(await textOf("calm")).not.toMatch(/Stalls/);
});

it("says of a lost worker that its numbers are old", async () => {
  serve({ ...SESSION, [WORKERS]: json({ data: [aWorker({ state: "lost" })] }) });
  open("/admin/workers");
  expect(await screen.findByText(/what it told last/)).toBeTruthy();
});

it("says in the server's words why it will not show them", async () => {
  serve({ ...SESSION, [WORKERS]: problem(403, "This route is for operators.", "wrong_role") });
  open("/admin/workers");
  expect((await screen.findByRole("alert")).textContent).toMatch(/for operators/);
});
