import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import { open } from "@/testing/page";
import { anAdapter, aVersion, TENANT } from "@/testing/samples";
import { json, problem, serve } from "@/testing/server";

const ADAPTER = "/api/v1/adapters/support";
const list = (...data: unknown[]) => json({ data, next_cursor: null });
const NOT_PINNED = problem(404, "It is not pinned.", "pin_not_found");
const PAGE = {
  "GET /api/v1/session": json(TENANT),
  [`GET ${ADAPTER}/versions`]: list(aVersion()),
  [`GET ${ADAPTER}/aliases`]: list(),
  [`GET ${ADAPTER}/rollouts`]: list(),
  [`GET ${ADAPTER}/pin`]: NOT_PINNED,
};
const DELETED = anAdapter({ deleted_at: "2026-01-03T03:04:05Z" });

it("deletes an adapter after it has asked, and shows what can be restored", async () => {
  const { calls } = serve({
    ...PAGE,
    [`DELETE ${ADAPTER}`]: json(DELETED),
    "GET /api/v1/adapters": list(DELETED),
  });
  open("/adapters/support");
  await userEvent.click(await screen.findByRole("button", { name: "Delete" }));
  expect(calls.some(({ method }) => method === "DELETE")).toBe(false);
  await userEvent.click(screen.getByRole("button", { name: "Delete it" }));
  expect(await screen.findByRole("button", { name: "Restore support" })).toBeTruthy();
  const asked = calls.filter(({ url }) => new URL(url).pathname === "/api/v1/adapters");
  expect(asked.map(({ url }) => new URL(url).searchParams.get("deleted"))).toEqual(["true"]);
});

it("restores an adapter and goes to it", async () => {
  serve({
    ...PAGE,
    "GET /api/v1/adapters": list(DELETED),
    [`POST ${ADAPTER}/restore`]: json(anAdapter()),
  });
  const { router } = open("/adapters?deleted");
  await userEvent.click(await screen.findByRole("button", { name: "Restore support" }));
  expect(await screen.findByRole("heading", { name: "Version 1" })).toBeTruthy();
  expect(router.state.location.pathname).toBe("/adapters/support");
});

it("says that there is nothing to restore", async () => {
  serve({ ...PAGE, "GET /api/v1/adapters": list() });
  open("/adapters?deleted");
  expect(await screen.findByRole("heading", { name: "Nothing to restore" })).toBeTruthy();
});

it("says in the dialog why a version stays", async () => {
  const used = problem(409, "The alias prod names version 1.", "version_in_use");
  serve({ ...PAGE, [`DELETE ${ADAPTER}/versions/1`]: used });
  open("/adapters/support");
  await userEvent.click(await screen.findByRole("button", { name: "Delete version 1" }));
  await userEvent.click(screen.getByRole("button", { name: "Delete it" }));
  expect((await screen.findByRole("alert")).textContent).toMatch(/The alias prod names version 1/);
});

it("restores a version", async () => {
  const deleted = list(aVersion({ version: 3, deleted_at: "2026-01-03T03:04:05Z" }));
  const { calls } = serve({
    ...PAGE,
    [`GET ${ADAPTER}/versions`]: deleted,
    [`POST ${ADAPTER}/versions/3/restore`]: json(aVersion({ version: 3 })),
  });
  open("/adapters/support");
  await userEvent.click(await screen.findByText("Deleted versions"));
  await userEvent.click(await screen.findByRole("button", { name: "Restore version 3" }));
  expect(calls.some(({ url }) => url.endsWith("/versions/3/restore"))).toBe(true);
});

it("pins an adapter and lets it go again", async () => {
  let isPinned = false;
  const pin = json({ adapter: "support", created_at: "2026-01-03T03:04:05Z" });
  serve({
    ...PAGE,
    [`GET ${ADAPTER}/pin`]: () => (isPinned ? pin : NOT_PINNED).clone(),
    [`PUT ${ADAPTER}/pin`]: () => {
      isPinned = true;
      return pin.clone();
    },
    [`DELETE ${ADAPTER}/pin`]: () => {
      isPinned = false;
      return new Response(null, { status: 204 });
    },
  });
  open("/adapters/support");
  await userEvent.click(await screen.findByRole("button", { name: "Pin" }));
  expect(await screen.findByText(/Pinned since/)).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Unpin" }));
  expect(await screen.findByRole("button", { name: "Pin" })).toBeTruthy();
});

it("says why an adapter was not pinned", async () => {
  const refused = problem(429, "At most 4 adapters are pinned.", "too_many_pins");
  serve({ ...PAGE, [`PUT ${ADAPTER}/pin`]: refused });
  open("/adapters/support");
  await userEvent.click(await screen.findByRole("button", { name: "Pin" }));
  expect((await screen.findByRole("alert")).textContent).toMatch(/At most 4/);
});

it("offers a viewer nothing to delete or to pin", async () => {
  const session = json({ ...TENANT, role: "viewer", scopes: ["adapters.read"] });
  serve({ ...PAGE, "GET /api/v1/session": session });
  open("/adapters/support");
  const keep = within(await screen.findByRole("list", { name: "Keep it" }));
  expect(keep.queryByRole("button")).toBeNull();
  expect(screen.queryByRole("button", { name: /Delete/ })).toBeNull();
});
