import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { open } from "@/testing/page";
import { anAdapter, TENANT } from "@/testing/samples";
import { json, problem, serve } from "@/testing/server";
import { aCaller, aKey } from "@/testing/tenancy";

const list = (...data: unknown[]) => json({ data, next_cursor: null });
const KEY = aKey();
const PATH = `/api/v1/keys/${KEY.id}`;
const SESSION = {
  "GET /api/v1/session": json(TENANT),
  "GET /api/v1/key": json(aCaller()),
  "GET /api/v1/adapters": list(anAdapter({ name: "pirate" })),
};

it("lists live keys, and ended ones when asked", async () => {
  const ended = aKey({ id: "2", name: "old", state: "revoked" });
  serve({ ...SESSION, "GET /api/v1/keys": list(ended, KEY) });
  open("/keys");
  const row = (await screen.findByRole("rowheader", { name: /nightly batch/ })).closest("tr");
  expect(row && within(row).getByText("live")).toBeTruthy();
  expect(screen.queryByText("old")).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Show what has ended (1)" }));
  expect(screen.getByRole("link", { name: "old" })).toBeTruthy();
});

it("asks for every page of a long list", async () => {
  const pages = [json({ data: [KEY], next_cursor: "more" }), list(aKey({ id: "2", name: "last" }))];
  const { calls } = serve({ ...SESSION, "GET /api/v1/keys": () => pages.shift() ?? list() });
  open("/keys");
  expect(await screen.findByRole("link", { name: "last" })).toBeTruthy();
  const asked = calls.filter(({ url }) => url.includes("/keys?"));
  expect(asked.map(({ url }) => new URL(url).searchParams.get("cursor"))).toEqual([null, "more"]);
});

it("offers a viewer no new key", async () => {
  const viewer = { ...TENANT, role: "viewer", scopes: ["keys.read"] };
  serve({ ...SESSION, "GET /api/v1/session": json(viewer), "GET /api/v1/keys": list() });
  open("/keys");
  expect(await screen.findByRole("heading", { name: "No keys" })).toBeTruthy();
  expect(screen.queryByRole("link", { name: /key/ })).toBeNull();
});

it("makes a key of chosen scopes and models, and shows its text once", async () => {
  const made = json({ ...KEY, api_key: "lpx_secret" }, 201);
  const { calls } = serve({ ...SESSION, "POST /api/v1/keys": made, [`GET ${PATH}`]: json(KEY) });
  open("/keys/new");
  await userEvent.type(await screen.findByLabelText("Name"), " nightly batch ");
  await userEvent.click(screen.getByRole("checkbox", { name: /See the tenant's keys/ }));
  await userEvent.click(screen.getByRole("radio", { name: /Only those that I name/ }));
  await userEvent.type(screen.getByLabelText("Name of a model"), "pirate{Enter}");
  await userEvent.click(screen.getByRole("button", { name: "Make the key" }));
  expect(await screen.findByText("lpx_secret")).toBeTruthy();
  expect(screen.getByRole("status").textContent).toMatch(/shown this once/);
  const sent = calls.find(({ method }) => method === "POST");
  expect(await sent?.json()).toEqual({
    name: "nightly batch",
    scopes: ["models.call", "keys.read"],
    models: ["pirate"],
    expires_at: null,
  });
  await userEvent.click(screen.getByRole("link", { name: "I have kept it" }));
  expect(await screen.findByText("What it is")).toBeTruthy();
  expect(screen.queryByText("lpx_secret")).toBeNull();
});

it("asks for what is missing before it sends anything", async () => {
  const { calls } = serve(SESSION);
  open("/keys/new");
  await userEvent.click(await screen.findByRole("checkbox", { name: /List and call models/ }));
  await userEvent.click(screen.getByRole("button", { name: "Make the key" }));
  const alerts = screen.getAllByRole("alert").map(({ textContent }) => textContent);
  expect(alerts).toEqual(["Give it a name.", "Choose one or more."]);
  expect(calls.map(({ method }) => method)).not.toContain("POST");
});

it("shows a refusal at the field that it is about, in the server's words", async () => {
  const words = "A key may not outlive yours.";
  const refused = json(
    {
      title: "Forbidden",
      status: 403,
      detail: words,
      code: "exceeds_creator",
      field: "expires_at",
    },
    403,
  );
  serve({ ...SESSION, "POST /api/v1/keys": refused });
  open("/keys/new");
  await userEvent.type(await screen.findByLabelText("Name"), "x{Enter}");
  expect((await screen.findByRole("alert")).textContent).toBe(words);
  expect(screen.getByLabelText("Ends").getAttribute("aria-invalid")).toBe("true");
});

it("offers a key of some models no key for all", async () => {
  const some = aCaller({ models: ["pirate"] });
  serve({ ...SESSION, "GET /api/v1/key": json(some) });
  open("/keys/new");
  expect(await screen.findByRole("list", { name: /Models it may call/ })).toBeTruthy();
  expect(screen.queryByRole("radio")).toBeNull();
});

it("rotates with the chosen overlap, and shows the new text", async () => {
  const rotated = json({ ...KEY, id: "2", api_key: "lpx_next" }, 201);
  const { calls } = serve({
    ...SESSION,
    [`GET ${PATH}`]: json(KEY),
    [`POST ${PATH}/rotate`]: rotated,
  });
  open(`/keys/${KEY.id}`);
  await userEvent.selectOptions(await screen.findByLabelText("The old key ends"), "In an hour");
  await userEvent.click(screen.getByRole("button", { name: "Rotate the key" }));
  expect(await screen.findByText("lpx_next")).toBeTruthy();
  const sent = calls.find(({ method }) => method === "POST");
  expect(await sent?.json()).toEqual({ overlap_seconds: 3600 });
});

it("disables a key and enables it again", async () => {
  let state = "live";
  const { calls } = serve({
    ...SESSION,
    [`GET ${PATH}`]: () => json({ ...KEY, state }),
    [`PATCH ${PATH}`]: () => json({ ...KEY, state: (state = "disabled") }),
  });
  open(`/keys/${KEY.id}`);
  await userEvent.click(await screen.findByRole("button", { name: "Disable" }));
  expect(await screen.findByRole("button", { name: "Enable" })).toBeTruthy();
  const sent = calls.find(({ method }) => method === "PATCH");
  expect(await sent?.json()).toEqual({ is_disabled: true });
});

it("revokes a key only after it has asked", async () => {
  let state = "live";
  const revoke = vi.fn(() => {
    state = "revoked";
    return new Response(null, { status: 204 });
  });
  serve({ ...SESSION, [`GET ${PATH}`]: () => json({ ...KEY, state }), [`DELETE ${PATH}`]: revoke });
  open(`/keys/${KEY.id}`);
  await userEvent.click(await screen.findByRole("button", { name: "Revoke" }));
  const dialog = within(screen.getByRole("dialog", { name: "Revoke nightly batch?" }));
  await userEvent.click(dialog.getByRole("button", { name: "Cancel" }));
  expect(revoke).not.toHaveBeenCalled();
  await userEvent.click(screen.getByRole("button", { name: "Revoke" }));
  await userEvent.click(screen.getByRole("button", { name: "Revoke it for good" }));
  expect(await screen.findByText("revoked")).toBeTruthy();
  expect(screen.queryByRole("dialog")).toBeNull();
});

it("says in the dialog why a key was not revoked", async () => {
  const refused = problem(403, "Only its member may.", "key_not_yours");
  serve({ ...SESSION, [`GET ${PATH}`]: json(KEY), [`DELETE ${PATH}`]: refused });
  open(`/keys/${KEY.id}`);
  await userEvent.click(await screen.findByRole("button", { name: "Revoke" }));
  await userEvent.click(screen.getByRole("button", { name: "Revoke it for good" }));
  expect((await screen.findByRole("alert")).textContent).toMatch(/Only its member may/);
});

it("offers nothing to do with another member's key", async () => {
  serve({ ...SESSION, [`GET ${PATH}`]: json({ ...KEY, member_id: "another" }) });
  open(`/keys/${KEY.id}`);
  expect(await screen.findByText("What it is")).toBeTruthy();
  expect(screen.queryByRole("button", { name: /Revoke|Rotate|Disable/ })).toBeNull();
});
