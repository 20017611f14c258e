import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import { open } from "@/testing/page";
import { anAlias, aRollout, aVersion, TENANT } from "@/testing/samples";
import { json, problem, serve } from "@/testing/server";

const ADAPTER = "/api/v1/adapters/support";
const list = (...data: unknown[]) => json({ data, next_cursor: null });
const LATEST = anAlias({ alias: "latest", version: 2, generation: null, moved_at: null });
const PAGE = {
  "GET /api/v1/session": json(TENANT),
  [`GET ${ADAPTER}/versions`]: list(aVersion({ version: 2, model: "acme/support:v2" }), aVersion()),
  [`GET ${ADAPTER}/aliases`]: list(LATEST, anAlias()),
  [`GET ${ADAPTER}/rollouts`]: list(),
  [`GET ${ADAPTER}/pin`]: problem(404, "It is not pinned.", "pin_not_found"),
};

const aliases = () => screen.findByRole("list", { name: "Aliases" });

it("moves an alias as it was seen, and no other", async () => {
  const { calls } = serve({
    ...PAGE,
    [`PUT ${ADAPTER}/aliases/prod`]: json(anAlias({ version: 2, generation: 5 })),
  });
  open("/adapters/support");
  const row = within(await aliases());
  expect(row.queryByText("latest")).toBeNull();
  await userEvent.selectOptions(row.getByLabelText("New version of prod"), "Version 2");
  await userEvent.click(row.getByRole("button", { name: "Move" }));
  const moved = calls.find(({ method }) => method === "PUT");
  expect(moved?.headers.get("If-Match")).toBe('"4"');
  expect(await moved?.json()).toEqual({ version: 2 });
});

it("says that somebody else has moved the alias since", async () => {
  const refused = problem(412, "prod has moved since you looked.", "generation_mismatch");
  serve({ ...PAGE, [`POST ${ADAPTER}/aliases/prod/rollback`]: refused });
  open("/adapters/support");
  await userEvent.click(within(await aliases()).getByRole("button", { name: "Roll back" }));
  expect((await screen.findByRole("alert")).textContent).toMatch(/moved since you looked/);
});

it("sets a new alias without a condition", async () => {
  const made = json(anAlias({ alias: "canary", generation: 1 }), 201);
  const { calls } = serve({ ...PAGE, [`PUT ${ADAPTER}/aliases/canary`]: made });
  open("/adapters/support");
  await userEvent.type(await screen.findByLabelText("New alias"), "canary");
  await userEvent.click(screen.getByRole("button", { name: "Add alias" }));
  const made_ = calls.find(({ method }) => method === "PUT");
  expect(made_?.headers.get("If-Match")).toBeNull();
});

it("starts a rollout with a first share", async () => {
  const { calls } = serve({ ...PAGE, [`POST ${ADAPTER}/rollouts`]: json(aRollout(), 201) });
  open("/adapters/support");
  await userEvent.click(await screen.findByRole("button", { name: "Start rollout" }));
  const started = calls.find(({ method }) => method === "POST");
  expect(await started?.json()).toEqual({ alias: "prod", version: 2, weight: 10 });
});

it("shows what a rollout has seen, and promotes it", async () => {
  const running = aRollout();
  const { calls } = serve({
    ...PAGE,
    [`GET ${ADAPTER}/rollouts`]: list(running),
    [`POST ${ADAPTER}/rollouts/${running.id}/promote`]: json(aRollout({ status: "promoted" })),
  });
  open("/adapters/support");
  const row = within(await screen.findByRole("list", { name: "Rollouts" }));
  expect(await row.findByText(/10 % get v2/)).toBeTruthy();
  expect(row.getByText(/1 of 40 requests failed/)).toBeTruthy();
  await userEvent.click(row.getByRole("button", { name: "Promote" }));
  expect(calls.some(({ url }) => url.endsWith("/promote"))).toBe(true);
});
