/** An operator signs in, sees the workers and their load, tenants and switches, and has no tenant's pages. */
import assert from "node:assert/strict";
import { picture, settings, signIn, travel } from "./browser.mjs";

await travel(async (page) => {
  await page.goto("/");
  await signIn(page, settings.key);
  await page.getByRole("heading", { name: "Workers" }).waitFor();
  for (const id of settings.workers) {
    const card = page.getByRole("article", { name: `Worker ${id}` });
    await card.getByText("live", { exact: true }).waitFor();
    const load = await card.textContent();
    for (const part of ["Running", "Waiting", "KV in use", "Cached prefixes", "Output tokens/s"]) {
      assert.ok(load.includes(part), `${part} is missing in: ${load}`);
    }
  }
  await page.waitForResponse((response) => response.url().endsWith("/api/v1/admin/workers"));
  await picture(page, "workers");

  await page.getByRole("link", { name: "Tenants" }).click();
  await page.getByRole("link", { name: settings.tenant, exact: true }).waitFor();
  await picture(page, "tenants");
  await page.getByRole("link", { name: settings.tenant, exact: true }).click();
  await page.getByText("Limits and budgets").waitFor();
  await page.getByText("Output tokens").waitFor();
  await picture(page, "tenant");

  await page.getByRole("link", { name: "Switches" }).click();
  await page.getByRole("heading", { name: "Read only" }).waitFor();
  await page.getByRole("button", { name: "Turn on" }).first().click();
  await picture(page, "switches");
  await page.keyboard.press("Escape");

  await page.goto("/adapters");
  await page.getByText("Only tenants have this page").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("API key").waitFor();
});
