import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it } from "vitest";
import { open } from "@/testing/page";
import { OPERATOR, TENANT } from "@/testing/samples";
import { json, problem, serve } from "@/testing/server";

const SESSION = "GET /api/v1/session";
const signedOut = problem(401, "No key.", "missing_key");
const adapters = { "GET /api/v1/adapters": json({ data: [], next_cursor: null }) };

async function signIn(key: string) {
  await userEvent.type(await screen.findByLabelText("API key"), key);
  await userEvent.click(screen.getByRole("button", { name: "Sign in with the key" }));
}

it("leads to the sign-in, and with a good key back to the page that was asked for", async () => {
  serve({ [SESSION]: signedOut, "POST /api/v1/session": json(TENANT), ...adapters });
  const { router } = open("/adapters?q=x");
  await signIn(" lpx_good ");
  expect(await screen.findByRole("heading", { name: "Adapters" })).toBeTruthy();
  expect(router.state.location.search).toBe("?q=x");
  expect(screen.getByText("acme")).toBeTruthy();
});

it("says in plain words that a key is unknown", async () => {
  serve({ [SESSION]: signedOut, "POST /api/v1/session": problem(401, "x", "invalid_api_key") });
  open("/login");
  await signIn("lpx_bad");
  expect((await screen.findByRole("alert")).textContent).toMatch(/does not know this key/);
});

it("says how long a throttled address must wait", async () => {
  const throttled = problem(429, "x", "too_many_failures", { "Retry-After": "40" });
  serve({ [SESSION]: signedOut, "POST /api/v1/session": throttled });
  open("/login");
  await signIn("lpx_bad");
  expect((await screen.findByRole("alert")).textContent).toMatch(/in 40 seconds/);
});

it("asks for a key before it sends anything", async () => {
  const { calls } = serve({ [SESSION]: signedOut });
  open("/login");
  await userEvent.click(await screen.findByRole("button", { name: "Sign in with the key" }));
  expect(screen.getByRole("alert").textContent).toBe("Paste a key first.");
  expect(calls.map(({ method }) => method)).not.toContain("POST");
});

it("signs out, and forgets what was loaded", async () => {
  serve({
    [SESSION]: json(TENANT),
    "DELETE /api/v1/session": new Response(null, { status: 204 }),
    ...adapters,
  });
  const { client } = open("/adapters");
  await userEvent.click(await screen.findByRole("button", { name: "Sign out" }));
  expect(await screen.findByLabelText("API key")).toBeTruthy();
  expect(client.getQueryCache().findAll({ queryKey: ["adapters"] })).toEqual([]);
});

it("leads to the sign-in when the session has ended", async () => {
  serve({ [SESSION]: json(TENANT), "GET /api/v1/adapters": signedOut });
  open("/adapters");
  expect(await screen.findByLabelText("API key")).toBeTruthy();
});

it("does not sign anybody out for a page that is not theirs", async () => {
  serve({ [SESSION]: json(TENANT) });
  open("/admin/workers");
  expect(await screen.findByText("Only operators have this page")).toBeTruthy();
  expect(screen.getByRole("button", { name: "Sign out" })).toBeTruthy();
});

it("brings an operator to the workers", async () => {
  serve({ [SESSION]: json(OPERATOR), "GET /api/v1/admin/workers": json({ data: [] }) });
  open("/");
  expect(await screen.findByRole("heading", { name: "No workers" })).toBeTruthy();
});
