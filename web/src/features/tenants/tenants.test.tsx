import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import { open } from "@/testing/page";
import { OPERATOR } from "@/testing/samples";
import { json, problem, serve } from "@/testing/server";
import { aResult, aTenant, aUsage, someLimits } from "@/testing/tenancy";

const ADMIN = "/api/v1/admin/tenants";
const list = (...data: unknown[]) => json({ data, next_cursor: null });
const SESSION = { "GET /api/v1/session": json(OPERATOR) };
const VIEWER = { "GET /api/v1/session": json({ ...OPERATOR, role: "admin_viewer" }) };
const PAGE = {
  ...SESSION,
  [`GET ${ADMIN}/acme`]: json(aTenant()),
  [`GET ${ADMIN}/acme/limits-in-use`]: list(someLimits()),
  "GET /api/v1/admin/usage": json(aUsage([aResult()])),
};

it("lists tenants and narrows the list by name", async () => {
  serve({
    ...SESSION,
    [`GET ${ADMIN}`]: list(aTenant(), aTenant({ id: "2", name: "globex", state: "suspended" })),
  });
  open("/admin/tenants");
  expect(await screen.findByText("suspended")).toBeTruthy();
  await userEvent.type(screen.getByLabelText("Filter by name"), "ACM");
  expect(screen.queryByText("globex")).toBeNull();
  await userEvent.type(screen.getByLabelText("Filter by name"), "x");
  expect(await screen.findByText("No tenant matches")).toBeTruthy();
});

it("makes a tenant and goes to it", async () => {
  const { calls } = serve({
    ...PAGE,
    [`GET ${ADMIN}`]: list(),
    [`POST ${ADMIN}`]: json(aTenant(), 201),
  });
  const { router } = open("/admin/tenants");
  await userEvent.click(await screen.findByRole("button", { name: "New tenant" }));
  await userEvent.type(screen.getByLabelText("Name"), "acme{Enter}");
  expect(await screen.findByText("Acme Ltd")).toBeTruthy();
  expect(router.state.location.pathname).toBe("/admin/tenants/acme");
  const sent = calls.find(({ method }) => method === "POST");
  expect(await sent?.json()).toEqual({ name: "acme", display_name: "" });
});

it("says in the dialog why a tenant was not made", async () => {
  const taken = problem(409, "There is a tenant named acme.", "tenant_name_taken");
  serve({ ...SESSION, [`GET ${ADMIN}`]: list(), [`POST ${ADMIN}`]: taken });
  open("/admin/tenants");
  await userEvent.click(await screen.findByRole("button", { name: "New tenant" }));
  await userEvent.type(screen.getByLabelText("Name"), "acme{Enter}");
  expect((await screen.findByRole("alert")).textContent).toMatch(/There is a tenant named acme/);
});

it("suspends with a reason, and resumes", async () => {
  let tenant = aTenant();
  const become = (next: typeof tenant) => () => json((tenant = next));
  const suspended = aTenant({ state: "suspended", state_reason: "unpaid" });
  const { calls } = serve({
    ...PAGE,
    [`GET ${ADMIN}/acme`]: () => json(tenant),
    [`POST ${ADMIN}/acme/suspend`]: become(suspended),
    [`POST ${ADMIN}/acme/resume`]: become(aTenant()),
  });
  open("/admin/tenants/acme");
  await userEvent.click(await screen.findByRole("button", { name: "Suspend" }));
  const confirm = screen.getByRole<HTMLButtonElement>("button", { name: "Suspend it" });
  expect(confirm.disabled).toBe(true);
  await userEvent.type(screen.getByLabelText("Reason"), "unpaid{Enter}");
  expect(await screen.findByText("unpaid")).toBeTruthy();
  const sent = calls.find(({ url }) => url.endsWith("/suspend"));
  expect(await sent?.json()).toEqual({ reason: "unpaid" });
  await userEvent.click(screen.getByRole("button", { name: "Resume" }));
  await userEvent.click(screen.getByRole("button", { name: "Resume it" }));
  expect(await screen.findByRole("button", { name: "Suspend" })).toBeTruthy();
});

it("shows what a tenant used and where its budget stands", async () => {
  const { calls } = serve(PAGE);
  open("/admin/tenants/acme");
  expect(await screen.findByText("$4.20 of $5.00")).toBeTruthy();
  expect(screen.getByText("$0.00052")).toBeTruthy();
  const asked = calls.find(({ url }) => url.includes("/admin/usage"));
  expect(new URL(asked?.url ?? "").searchParams.get("tenant")).toBe("acme");
});

it("makes the link by which its owner comes in", async () => {
  const made = {
    id: "9",
    email: "bob@example.com",
    role: "owner",
    invited_by: "operator",
    expires_at: "2026-01-09T03:04:05Z",
    created_at: "2026-01-02T03:04:05Z",
    token: "i.t",
    link: "https://x.example/welcome#i.t",
  };
  const { calls } = serve({ ...PAGE, [`POST ${ADMIN}/acme/members`]: json(made, 201) });
  open("/admin/tenants/acme");
  await userEvent.type(await screen.findByLabelText("E-mail address"), "bob@example.com{Enter}");
  expect(await screen.findByText(made.link)).toBeTruthy();
  const sent = calls.find(({ method }) => method === "POST");
  expect(await sent?.json()).toEqual({ email: "bob@example.com", role: "owner" });
});

it("offers an operator who only reads nothing to change", async () => {
  serve({ ...PAGE, ...VIEWER, [`GET ${ADMIN}`]: list(aTenant()) });
  const { router } = open("/admin/tenants");
  await userEvent.click(await screen.findByRole("link", { name: "acme" }));
  expect(await screen.findByText("Acme Ltd")).toBeTruthy();
  expect(router.state.location.pathname).toBe("/admin/tenants/acme");
  expect(screen.queryByRole("button", { name: /Suspend|New tenant|link/ })).toBeNull();
});
