import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import { open } from "@/testing/page";
import { OPERATOR, TENANT } from "@/testing/samples";
import { json, serve } from "@/testing/server";
import { aCaller, anOwnSession } from "@/testing/tenancy";
import { browserName } from "./browsers";

const ADA = {
  ...TENANT,
  person: {
    id: "1",
    email: "ada@example.com",
    display_name: "Ada",
    operator_role: null,
    has_password: true,
  },
  places: [{ tenant: "acme", state: "active", role: "owner" as const }],
};
const HERE = anOwnSession({ id: "here", is_current: true });
const THERE = anOwnSession({ id: "there" });
const PAGE = {
  "GET /api/v1/session": json(ADA),
  "GET /api/v1/sessions": json({ data: [HERE, THERE] }),
};
const DONE = new Response(null, { status: 204 });

async function changePassword(now: string, wanted: string) {
  await userEvent.type(await screen.findByLabelText("Your password now"), now);
  await userEvent.type(screen.getByLabelText("New password"), `${wanted}{Enter}`);
}

it("changes the password and says so", async () => {
  const { calls } = serve({ ...PAGE, "POST /api/v1/session/password": json(ADA) });
  open("/account");
  await changePassword("old horse battery", "new horse battery");
  expect(await screen.findByText("Your password is changed")).toBeTruthy();
  expect(screen.getByLabelText<HTMLInputElement>("New password").value).toBe("");
  const sent = calls.find(({ method }) => method === "POST");
  expect(await sent?.json()).toEqual({
    current_password: "old horse battery",
    new_password: "new horse battery",
  });
});

it("says at its field what is wrong with a new password", async () => {
  const detail = "A password has 12 to 1024 characters.";
  const refused = json({ status: 400, detail, code: "bad_password", field: "new_password" }, 400);
  serve({ ...PAGE, "POST /api/v1/session/password": refused });
  open("/account");
  await changePassword("old horse battery", "short");
  expect((await screen.findByRole("alert")).textContent).toBe(detail);
  expect(screen.getByLabelText("New password").getAttribute("aria-invalid")).toBe("true");
});

it("signs one other browser out, and never this one", async () => {
  const { calls } = serve({ ...PAGE, "DELETE /api/v1/sessions/there": DONE });
  open("/account");
  const sessions = within(await screen.findByRole("list", { name: "Sessions" }));
  const [end, ...more] = sessions.getAllByRole("button", { name: "Sign out Firefox on Linux" });
  expect(more).toEqual([]);
  if (end) await userEvent.click(end);
  expect(calls.some(({ url }) => url.endsWith("/sessions/there"))).toBe(true);
});

it("signs out everywhere else after it has asked", async () => {
  const { calls } = serve({ ...PAGE, "DELETE /api/v1/sessions": DONE });
  open("/account");
  await userEvent.click(await screen.findByRole("button", { name: "Sign out everywhere else" }));
  expect(calls.some(({ method }) => method === "DELETE")).toBe(false);
  await userEvent.click(screen.getByRole("button", { name: "Sign out the others" }));
  expect(calls.some(({ method }) => method === "DELETE")).toBe(true);
});

it("asks those whom an identity provider knows for no password", async () => {
  const session = json({ ...ADA, person: { ...ADA.person, has_password: false } });
  serve({ ...PAGE, "GET /api/v1/session": session });
  open("/account");
  expect(await screen.findByText("the identity provider")).toBeTruthy();
  expect(screen.queryByLabelText("New password")).toBeNull();
});

it("shows a key what it may", async () => {
  serve({
    "GET /api/v1/session": json(TENANT),
    "GET /api/v1/key": json(aCaller({ label: "lpx_a…z" })),
  });
  open("/account");
  expect(await screen.findByText("lpx_a…z")).toBeTruthy();
  expect(screen.getByText("models.call, adapters.read, keys.read, keys.write")).toBeTruthy();
});

it("shows an operator's key its role", async () => {
  serve({ "GET /api/v1/session": json(OPERATOR) });
  open("/account");
  expect(await screen.findByText(/a key of the role admin/)).toBeTruthy();
});

it.each([
  ["Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"],
  [
    "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0",
    "Edge on Windows",
  ],
  [
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Safari/605.1",
    "Safari on iOS",
  ],
  ["curl/8.14", "curl/8.14"],
  ["", "An unnamed browser"],
])("takes %s for %s", (agent, name) => {
  expect(browserName(agent)).toBe(name);
});
