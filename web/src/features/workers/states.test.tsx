import { screen } from "@testing-library/react";
import { expect, it } from "vitest";
import { open } from "@/testing/page";
import { aWorker, OPERATOR } from "@/testing/samples";
import { json, problem, serve } from "@/testing/server";

const SESSION = { "GET /api/v1/session": json(OPERATOR) };
const WORKERS = "GET /api/v1/admin/workers";

it("shows whose the pages of a worker's pool are", async () => {
  serve({ ...SESSION, [WORKERS]: json({ data: [aWorker()] }) });
  open("/admin/workers");
  const card = await screen.findByRole("article", { name: "Worker worker-0" });
  expect(card.textContent).toMatch(/KV cache 30.*Adapters 10.*Free 60/);
});

it("says of a lost worker that its numbers are old", async () => {
  serve({ ...SESSION, [WORKERS]: json({ data: [aWorker({ state: "lost" })] }) });
  open("/admin/workers");
  expect(await screen.findByText(/what it told last/)).toBeTruthy();
});

it("says what to do when the server will not show them", async () => {
  serve({ ...SESSION, [WORKERS]: problem(403, "x", "wrong_role") });
  open("/admin/workers");
  expect((await screen.findByRole("alert")).textContent).toMatch(/operator/);
});
