import { act, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import { open } from "@/testing/page";
import { anAdapter, aVersion, TENANT } from "@/testing/samples";
import { json, problem, serve } from "@/testing/server";
import { adapterKeys } from "./api";

const NONE = json({ data: [], next_cursor: null });
const SESSION = {
  "GET /api/v1/session": json(TENANT),
  "GET /api/v1/adapters/support/aliases": NONE,
  "GET /api/v1/adapters/support/rollouts": NONE,
  "GET /api/v1/adapters/support/pin": problem(404, "It is not pinned.", "pin_not_found"),
};
const LIST = "GET /api/v1/adapters";
const list = (...data: unknown[]) => json({ data, next_cursor: null });

it("shows that it is loading", async () => {
  serve({ ...SESSION, [LIST]: () => new Promise(() => undefined) });
  open("/adapters");
  expect(await screen.findByText("Loading your adapters")).toBeTruthy();
});

it("shows that loading failed, and tries again when asked", async () => {
  const answers = [
    problem(503, "The database is away.", "database_unavailable"),
    list(anAdapter()),
  ];
  serve({ ...SESSION, [LIST]: () => answers.shift() ?? list() });
  open("/adapters");
  expect((await screen.findByRole("alert")).textContent).toMatch(/The database is away/);
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(await screen.findByRole("link", { name: "support" })).toBeTruthy();
});

it("shows how to begin when there is nothing yet", async () => {
  serve({ ...SESSION, [LIST]: list() });
  open("/adapters");
  expect(await screen.findByRole("heading", { name: "No adapters yet" })).toBeTruthy();
});

it("shows each adapter with the status of its newest version", async () => {
  const rejected = aVersion({ version: 3, status: "rejected", max_rank: null });
  serve({ ...SESSION, [LIST]: list(anAdapter({ latest_version: rejected })) });
  open("/adapters");
  const row = (await screen.findByRole("rowheader", { name: "support" })).closest("tr");
  expect(row && within(row).getByText("rejected")).toBeTruthy();
  expect(row?.textContent).toContain("v3");
});

it("shows that nothing matches the filter, which lives in the address", async () => {
  serve({ ...SESSION, [LIST]: list(anAdapter()) });
  const { router } = open("/adapters?q=nope");
  await userEvent.click(await screen.findByRole("button", { name: "Show all" }));
  expect(await screen.findByRole("link", { name: "support" })).toBeTruthy();
  expect(router.state.location.search).toBe("");
});

it("keeps what it has, and says that it may be old, when a refresh fails", async () => {
  const answers = [list(anAdapter()), problem(503, "x", "y")];
  serve({ ...SESSION, [LIST]: () => answers.shift() ?? list() });
  const { client } = open("/adapters");
  await screen.findByRole("link", { name: "support" });
  await act(() => client.refetchQueries({ queryKey: adapterKeys.list() }));
  expect(await screen.findByText("This may be out of date")).toBeTruthy();
  expect(screen.getByRole("link", { name: "support" })).toBeTruthy();
});

it("shows an adapter's names, and why a version was rejected", async () => {
  const reasons = [{ code: "nan", message: "The tensor holds NaN.", field: "q_proj.lora_A" }];
  const versions = [
    aVersion(),
    aVersion({ version: 2, status: "rejected", reasons, max_rank: null }),
  ];
  serve({ ...SESSION, "GET /api/v1/adapters/support/versions": list(...versions) });
  open("/adapters/support");
  expect(await screen.findByText("The tensor holds NaN.")).toBeTruthy();
  expect(screen.getByText("acme/support:v1")).toBeTruthy();
  const [first] = screen.getAllByRole("heading", { level: 3 });
  expect(first?.textContent).toBe("Version 2");
});

it("offers no name to call while no version is ready", async () => {
  const versions = [aVersion({ status: "rejected", reasons: [], max_rank: null })];
  serve({ ...SESSION, "GET /api/v1/adapters/support/versions": list(...versions) });
  open("/adapters/support");
  expect(await screen.findByRole("heading", { name: "Version 1" })).toBeTruthy();
  expect(screen.queryByText("Model names")).toBeNull();
});

it("says that an adapter does not exist", async () => {
  const missing = problem(404, "There is no adapter named nope.", "adapter_not_found");
  serve({ ...SESSION, "GET /api/v1/adapters/nope/versions": missing });
  open("/adapters/nope");
  expect((await screen.findByRole("alert")).textContent).toMatch(/no adapter named nope/);
});
