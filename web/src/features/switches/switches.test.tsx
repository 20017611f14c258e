import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import { open } from "@/testing/page";
import { aWorker, OPERATOR } from "@/testing/samples";
import { json, problem, serve } from "@/testing/server";
import { aSwitch } from "@/testing/tenancy";

const list = (...data: unknown[]) => json({ data, next_cursor: null });
const ON = aSwitch({ name: "no_uploads", is_on: true, reason: "full disk", changed_by: "ada" });
const PAGE = {
  "GET /api/v1/session": json(OPERATOR),
  "GET /api/v1/admin/switches": list(ON, aSwitch()),
  "GET /api/v1/admin/workers": json({ data: [aWorker({ pool: "gpu" })] }),
};

async function itemOf(title: string) {
  const heading = await screen.findByRole("heading", { name: title });
  const item = heading.closest("li");
  if (!item) throw new Error(`${title} is no item of the list`);
  return within(item);
}

it("says what is on, since when, by whom and why", async () => {
  serve(PAGE);
  open("/admin/switches");
  const uploads = await itemOf("No uploads");
  expect(uploads.getByText("on")).toBeTruthy();
  expect(uploads.getByText(/Turned on by ada .*: “full disk”/)).toBeTruthy();
  expect((await itemOf("Read only")).getByText("off")).toBeTruthy();
});

it("turns a switch on with a reason", async () => {
  const { calls } = serve({ ...PAGE, "PUT /api/v1/admin/switches/read_only": json(aSwitch()) });
  open("/admin/switches");
  await userEvent.click((await itemOf("Read only")).getByRole("button", { name: "Turn on" }));
  const confirm = screen.getByRole<HTMLButtonElement>("button", { name: "Turn it on" });
  expect(confirm.disabled).toBe(true);
  await userEvent.type(screen.getByLabelText("Reason"), "moving house{Enter}");
  const sent = calls.find(({ method }) => method === "PUT");
  expect(await sent?.json()).toEqual({ is_on: true, reason: "moving house" });
});

it("offers to drain a pool that was never drained, and says why that failed", async () => {
  const refused = problem(404, "No pool gpu has workers.", "pool_not_found");
  const { calls } = serve({ ...PAGE, "PUT /api/v1/admin/switches/drain_pool%3Agpu": refused });
  open("/admin/switches");
  const drain = await itemOf("Drain the pool gpu");
  await userEvent.click(drain.getByRole("button", { name: "Turn on" }));
  await userEvent.type(screen.getByLabelText("Reason"), "new drivers{Enter}");
  expect((await screen.findByRole("alert")).textContent).toMatch(/No pool gpu has workers/);
  expect(calls.some(({ method }) => method === "PUT")).toBe(true);
});

it("offers an operator who only reads nothing to turn", async () => {
  serve({ ...PAGE, "GET /api/v1/session": json({ ...OPERATOR, role: "admin_viewer" }) });
  open("/admin/switches");
  await itemOf("Read only");
  expect(screen.queryByRole("button", { name: /Turn/ })).toBeNull();
});
