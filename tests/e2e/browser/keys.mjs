/** A tenant makes a key, calls a model with it, sees what it used, and revokes it. */
import assert from "node:assert/strict";
import { picture, settings, signIn, travel } from "./browser.mjs";

const NAME = `journey ${Date.now()}`; // another one each time that a platform is travelled

await travel(async (page) => {
  await page.goto("/keys");
  await signIn(page, settings.key);
  const text = await makeKey(page);
  assert.equal(await statusOfCall(text), 200);
  await seeItUsed(page);
  await revokeIt(page);
  assert.equal(await statusOfCall(text), 401);
  await seeOwnAccount(page);
});

/** For one model alone; the only place where its text ever is. */
async function makeKey(page) {
  await page.getByRole("link", { name: "New key" }).click();
  await page.getByLabel("Name", { exact: true }).fill(NAME);
  await page.getByRole("radio", { name: "Only those that I name" }).check();
  await page.getByLabel("Name of a model").fill(settings.model);
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: `Take ${settings.model} away` }).waitFor();
  await picture(page, "new-key");
  await page.getByRole("button", { name: "Make the key" }).click();
  await page.getByText("It is shown this once").waitFor();
  const text = (await page.getByRole("region", { name: "API key" }).textContent()).trim();
  assert.match(text, /^lpx_/);
  await picture(page, "new-key-shown");
  await page.getByRole("link", { name: "I have kept it" }).click();
  await page.getByText("What it is").waitFor();
  assert.equal(await page.getByText(text).count(), 0, "the text is gone from the page");
  return text;
}

async function statusOfCall(key) {
  const answer = await fetch(`${settings.base_url}/v1/chat/completions`, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${key}`,
      "Content-Type": "application/json",
    },
    body: JSON.stringify({
      model: settings.model,
      messages: [{ role: "user", content: "Hello" }],
      max_tokens: 4,
    }),
  });
  await answer.arrayBuffer();
  return answer.status;
}

async function seeItUsed(page) {
  await page.getByRole("link", { name: "Usage", exact: true }).click();
  await page.getByLabel("Period").selectOption("Last 24 hours");
  await page.getByLabel("Group by").selectOption("Key");
  const line = page.getByRole("row").filter({ hasText: NAME });
  await line.waitFor();
  assert.equal(await line.getByRole("cell").first().textContent(), "1", "requests of the key");
  await page.getByRole("slider", { name: "Tokens by the hour" }).focus();
  await page.keyboard.press("ArrowLeft");
  await page.getByText("Limits and budgets").waitFor();
  await picture(page, "usage");

  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download CSV" }).click();
  assert.match((await download).suggestedFilename(), /^usage-.*-1h\.csv$/);
}

async function revokeIt(page) {
  await page.getByRole("link", { name: "Keys", exact: true }).click();
  await picture(page, "keys");
  await page.getByRole("link", { name: NAME }).click();
  await page.getByRole("button", { name: "Revoke" }).click();
  await picture(page, "revoke");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  const revoke = page.getByRole("button", { name: "Revoke" });
  assert.ok(await revoke.evaluate((button) => button === document.activeElement));
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Revoke it for good" }).click();
  await page.getByText("revoked", { exact: true }).waitFor();
  assert.equal(await revoke.count(), 0, "what is revoked is not offered again");
  await picture(page, "key");
}

async function seeOwnAccount(page) {
  await page.getByRole("link", { name: "Account" }).click();
  await page.getByText("Signed in with a key").waitFor();
  await picture(page, "account-of-a-key");
}
