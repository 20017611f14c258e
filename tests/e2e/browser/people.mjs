/** The first admin and a member follow their links; the member goes between tenants, leaves, returns. */
import assert from "node:assert/strict";
import { picture, settings, travel } from "./browser.mjs";

const MEMBERS_PASSWORD = "correct horse battery";

await travel(async (page) => {
  await becomeFirstAdmin(page);
  await joinAsSomebodyNew(page);
  await joinAnotherWithAnAccount(page);
  await goBetweenTenants(page);
  await leave(page);
  await returnByPassword(page);
  await seeOwnAccount(page);
});

async function becomeFirstAdmin(page) {
  await page.goto(settings.admin_link);
  await page.getByRole("heading", { name: "Operate Loraplex" }).waitFor();
  await page.getByText(`${settings.admin_email}, as an admin`).waitFor();
  await page.getByLabel("Your name").fill("Grace");
  await choosePassword(page, "too short");
  await page.getByRole("alert").getByText("12 to 1024 characters").waitFor();
  await picture(page, "welcome-refused");
  await choosePassword(page, "a staple for batteries");
  await page.getByRole("heading", { name: "Workers" }).waitFor();
  await page.getByText(settings.admin_email, { exact: true }).waitFor();
  assert.ok(!page.url().includes("#"), "the link's token is gone from the address");
  await picture(page, "first-admin");
}

/** In the admin's browser: whoever follows the link becomes the member, and is told so. */
async function joinAsSomebodyNew(page) {
  await page.goto(settings.first_link);
  await page.getByRole("heading", { name: `Join ${settings.first_tenant}` }).waitFor();
  await page.getByText(`You are signed in as ${settings.admin_email}`).waitFor();
  await picture(page, "welcome-of-another");
  await page.getByLabel("Your name").fill("Ada");
  await choosePassword(page, MEMBERS_PASSWORD);
  await page.getByText("No adapters yet").waitFor();
  await page.getByText(settings.first_tenant, { exact: true }).waitFor();
  await page.getByText(settings.email, { exact: true }).waitFor();
  await picture(page, "member");
}

async function joinAnotherWithAnAccount(page) {
  await page.goto(settings.second_link);
  await page.getByRole("heading", { name: `Join ${settings.second_tenant}` }).waitFor();
  await page.getByRole("button", { name: "Continue" }).waitFor();
  assert.equal(await page.getByLabel(/password/i).count(), 0, "the session proves whose it is");
  await picture(page, "welcome-with-an-account");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("link", { name: settings.second_adapter, exact: true }).waitFor();
}

async function goBetweenTenants(page) {
  const places = page.getByLabel("Tenant", { exact: true });
  assert.equal(await places.inputValue(), settings.second_tenant);
  const upload = page.getByRole("link", { name: "Upload an adapter" });
  assert.equal(await upload.count(), 0, "a viewer is offered no upload");
  await picture(page, "member-of-two");
  await places.selectOption(settings.first_tenant);
  await page.getByText("No adapters yet").waitFor();
  await upload.waitFor();
  await places.selectOption(settings.second_tenant);
  await page.getByRole("link", { name: settings.second_adapter, exact: true }).waitFor();
}

async function leave(page) {
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("E-mail address").waitFor();
  await page.goto(settings.first_link);
  await page.getByRole("alert").getByText("This link works no more").waitFor();
  await picture(page, "welcome-used");
}

async function returnByPassword(page) {
  await page.getByRole("link", { name: "Sign in instead" }).click();
  await page.getByLabel("E-mail address").fill(settings.email);
  await page.getByLabel("Password").fill("not the password");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText("address or the password is wrong").waitFor();
  await picture(page, "sign-in-wrong-password");
  await page.getByLabel("Password").fill(MEMBERS_PASSWORD);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Adapters", exact: true }).waitFor();
  await page.getByText(settings.email, { exact: true }).waitFor();
}

async function seeOwnAccount(page) {
  await page.getByRole("link", { name: settings.email }).click();
  const sessions = page.getByRole("list", { name: "Sessions" });
  await sessions.getByText("this one").waitFor();
  await page.getByLabel("Your password now").fill("not the password");
  await page.getByLabel("New password").fill("another long password");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
  await picture(page, "account");
}

async function choosePassword(page, password) {
  await page.getByLabel("Choose a password").fill(password);
  await page.getByRole("button", { name: "Continue" }).click();
}
