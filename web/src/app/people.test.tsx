import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import { open } from "@/testing/page";
import { OPERATOR, TENANT } from "@/testing/samples";
import { json, problem, serve } from "@/testing/server";

const SESSION = "GET /api/v1/session";
const signedOut = problem(401, "No key.", "missing_key");
const adapters = { "GET /api/v1/adapters": json({ data: [], next_cursor: null }) };
const ADA = {
  ...TENANT,
  person: {
    id: "1",
    email: "ada@example.com",
    display_name: "Ada",
    operator_role: null,
    has_password: true,
  },
  places: [
    { tenant: "acme", state: "active", role: "owner" as const },
    { tenant: "globex", state: "active", role: "viewer" as const },
  ],
};

it("signs a person in with an e-mail address and a password", async () => {
  const { calls } = serve({ [SESSION]: signedOut, "POST /api/v1/session": json(ADA), ...adapters });
  open("/login");
  await userEvent.type(await screen.findByLabelText("E-mail address"), " ada@example.com ");
  await userEvent.type(screen.getByLabelText("Password"), "correct horse{Enter}");
  expect(await screen.findByRole("heading", { name: "Adapters" })).toBeTruthy();
  expect(screen.getByText("ada@example.com")).toBeTruthy();
  const sent = calls.find(({ method }) => method === "POST");
  expect(await sent?.json()).toEqual({ email: "ada@example.com", password: "correct horse" });
});

it("says that a password is wrong, and not of what", async () => {
  serve({ [SESSION]: signedOut, "POST /api/v1/session": problem(401, "x", "invalid_login") });
  open("/login");
  await userEvent.type(await screen.findByLabelText("E-mail address"), "ada@example.com");
  await userEvent.type(screen.getByLabelText("Password"), "guess{Enter}");
  expect((await screen.findByRole("alert")).textContent).toMatch(
    /address or the password is wrong/,
  );
});

it("offers the identity provider where there is one", async () => {
  serve({
    [SESSION]: signedOut,
    "GET /api/v1/session/methods": json({ identity_provider: "Example ID" }),
  });
  open("/login?refused=oidc_email_unverified");
  expect(await screen.findByRole("button", { name: "Continue with Example ID" })).toBeTruthy();
  expect(screen.getByText(/has not verified your e-mail address/)).toBeTruthy();
});

it("lets a person go to another of their tenants, and offers what they may do there", async () => {
  const there = { ...ADA, tenant: "globex", role: "viewer", scopes: ["adapters.read"] };
  const { calls } = serve({
    [SESSION]: json(ADA),
    "PATCH /api/v1/session": json(there),
    ...adapters,
  });
  open("/adapters");
  await userEvent.selectOptions(await screen.findByLabelText("Tenant"), "globex");
  const chosen = await screen.findByRole<HTMLOptionElement>("option", { name: "globex (viewer)" });
  expect(chosen.selected).toBe(true);
  expect(screen.queryByRole("link", { name: /Upload|Chat/ })).toBeNull();
  const sent = calls.find(({ method }) => method === "PATCH");
  expect(await sent?.json()).toEqual({ tenant: "globex" });
});

it("shows whoever could be nowhere else just where they are", async () => {
  const alone = { ...ADA, places: ADA.places.slice(0, 1) };
  serve({ [SESSION]: json(alone), ...adapters });
  open("/adapters");
  expect(await screen.findByText("acme")).toBeTruthy();
  expect(screen.queryByLabelText("Tenant")).toBeNull();
});

it("lets the invited choose a password, and sends the token in no address", async () => {
  const offer = {
    kind: "operator",
    email: "ada@example.com",
    tenant: null,
    role: "admin",
    expires_at: "2026-01-02T03:04:05Z",
    has_account: false,
  };
  const { calls } = serve({
    [SESSION]: json(OPERATOR),
    "POST /api/v1/session/invitation/look": json(offer),
    "POST /api/v1/session/invitation": json(OPERATOR),
    "GET /api/v1/admin/workers": json({ data: [] }),
  });
  open("/welcome#i.token");
  expect(await screen.findByRole("heading", { name: "Operate Loraplex" })).toBeTruthy();
  await userEvent.type(screen.getByLabelText("Your name"), "Ada");
  await userEvent.type(screen.getByLabelText("Choose a password"), "correct horse{Enter}");
  expect(await screen.findByRole("heading", { name: "No workers" })).toBeTruthy();
  expect(calls.every(({ url }) => !url.includes("i.token"))).toBe(true);
  const sent = calls.find(({ url }) => url.endsWith("/session/invitation"));
  expect(await sent?.json()).toEqual({
    token: "i.token",
    password: "correct horse",
    display_name: "Ada",
  });
});

it("asks whoever is signed in as the invited for no password", async () => {
  const offer = {
    kind: "tenant",
    email: ADA.person.email,
    tenant: "globex",
    role: "viewer",
    expires_at: "2026-01-02T03:04:05Z",
    has_account: true,
  };
  const { calls } = serve({
    [SESSION]: json(ADA),
    "POST /api/v1/session/invitation/look": json(offer),
    "POST /api/v1/session/invitation": json({ ...ADA, tenant: "globex", role: "viewer" }),
    ...adapters,
  });
  open("/welcome#i.token");
  expect(await screen.findByRole("heading", { name: "Join globex" })).toBeTruthy();
  expect(screen.queryByLabelText(/password/i)).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Continue" }));
  expect(await screen.findByRole("heading", { name: "Adapters" })).toBeTruthy();
  const sent = calls.find(({ url }) => url.endsWith("/session/invitation"));
  expect(await sent?.json()).toEqual({ token: "i.token", display_name: "" });
});

it("says that a used link leads nowhere", async () => {
  const used = problem(404, "x", "invitation_not_found");
  serve({ [SESSION]: signedOut, "POST /api/v1/session/invitation/look": used });
  open("/welcome#i.used");
  expect(await screen.findByText(/This link works no more/)).toBeTruthy();
});
