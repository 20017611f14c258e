import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import { open } from "@/testing/page";
import { TENANT } from "@/testing/samples";
import { json, problem, serve } from "@/testing/server";
import { aMember } from "@/testing/tenancy";
import { rolesWithin } from "./roles";

const list = (...data: unknown[]) => json({ data, next_cursor: null });
const MEMBER = aMember();
const PATH = `/api/v1/members/${MEMBER.id}`;
const INVITATION = {
  id: "9",
  email: "bob@example.com",
  role: "viewer",
  invited_by: "ada@example.com",
  expires_at: "2026-01-09T03:04:05Z",
  created_at: "2026-01-02T03:04:05Z",
};
const PAGE = {
  "GET /api/v1/session": json(TENANT),
  "GET /api/v1/members": list(MEMBER),
  "GET /api/v1/invitations": list(),
};

it("gives a member another role", async () => {
  const { calls } = serve({ ...PAGE, [`PATCH ${PATH}`]: json(aMember({ role: "viewer" })) });
  open("/members");
  await userEvent.selectOptions(await screen.findByLabelText("Role of ada@example.com"), "viewer");
  const sent = calls.find(({ method }) => method === "PATCH");
  expect(await sent?.json()).toEqual({ role: "viewer" });
});

it("says beside the member why a role stays", async () => {
  serve({ ...PAGE, [`PATCH ${PATH}`]: problem(409, "The last owner stays.", "last_owner") });
  open("/members");
  await userEvent.selectOptions(await screen.findByLabelText("Role of ada@example.com"), "viewer");
  expect((await screen.findByRole("alert")).textContent).toBe("The last owner stays.");
});

it("removes a member after it has asked", async () => {
  const { calls } = serve({ ...PAGE, [`DELETE ${PATH}`]: new Response(null, { status: 204 }) });
  open("/members");
  await userEvent.click(await screen.findByRole("button", { name: "Remove" }));
  expect(calls.some(({ method }) => method === "DELETE")).toBe(false);
  await userEvent.click(screen.getByRole("button", { name: "Remove them" }));
  expect(calls.some(({ method }) => method === "DELETE")).toBe(true);
});

it("makes an invitation's link, and shows it once", async () => {
  const made = json({ ...INVITATION, token: "i.t", link: "https://x.example/welcome#i.t" }, 201);
  const { calls } = serve({ ...PAGE, "POST /api/v1/members": made });
  open("/members");
  await userEvent.type(await screen.findByLabelText("E-mail address"), " bob@example.com ");
  await userEvent.selectOptions(screen.getByLabelText("Role"), "viewer");
  await userEvent.click(screen.getByRole("button", { name: "Make the link" }));
  expect(await screen.findByText("https://x.example/welcome#i.t")).toBeTruthy();
  const sent = calls.find(({ method }) => method === "POST");
  expect(await sent?.json()).toEqual({ email: "bob@example.com", role: "viewer" });
  await userEvent.click(screen.getByRole("button", { name: "Invite another" }));
  expect(screen.queryByText(/i\.t$/)).toBeNull();
});

it("withdraws an invitation", async () => {
  const gone = new Response(null, { status: 204 });
  const { calls } = serve({
    ...PAGE,
    "GET /api/v1/invitations": list(INVITATION),
    "DELETE /api/v1/invitations/9": gone,
  });
  open("/members");
  const open_ = within(await screen.findByRole("list", { name: "Open invitations" }));
  await userEvent.click(open_.getByRole("button", { name: "Withdraw" }));
  await userEvent.click(screen.getByRole("button", { name: "Withdraw it" }));
  expect(calls.some(({ method }) => method === "DELETE")).toBe(true);
});

it("offers those who only read nothing to change", async () => {
  const session = json({ ...TENANT, role: "viewer", scopes: ["members.read"] });
  serve({ ...PAGE, "GET /api/v1/session": session, "GET /api/v1/invitations": list(INVITATION) });
  open("/members");
  expect(await screen.findByText("bob@example.com")).toBeTruthy();
  expect(await screen.findByRole("rowheader", { name: /Ada/ })).toBeTruthy();
  expect(screen.queryByRole("button", { name: /Remove|Withdraw|link/ })).toBeNull();
  expect(screen.queryByRole("combobox")).toBeNull();
});

it("lets an admin touch no owner", async () => {
  const session = json({ ...TENANT, role: "admin" });
  const members = list(aMember({ role: "owner" }));
  serve({ ...PAGE, "GET /api/v1/session": session, "GET /api/v1/members": members });
  open("/members");
  expect(await screen.findByRole("rowheader", { name: /Ada/ })).toBeTruthy();
  expect(screen.queryByRole("button", { name: "Remove" })).toBeNull();
  const offered = within(await screen.findByLabelText("Role")).getAllByRole("option");
  expect(offered.map(({ textContent }) => textContent)).not.toContain("owner");
});

it.each([
  ["owner", ["owner", "admin", "developer", "viewer", "inference"]],
  ["viewer", ["viewer", "inference"]],
  ["admin_viewer", []],
])("lets a role of %s give %j", (role, roles) => {
  expect(rolesWithin(role)).toEqual(roles);
});
