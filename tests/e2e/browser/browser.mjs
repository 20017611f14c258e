/** Debian's Chromium with a fresh profile, the journey's settings, and what every page must keep. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const web = new URL("../../../web/package.json", import.meta.url);
const { chromium } = createRequire(web)("playwright-core");

/** What the test tells its journey: base_url, chromium, screenshots, and what the journey needs. */
export const settings = JSON.parse(process.env.PORTAL_JOURNEY);

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const DESKTOP = { width: 1280, height: 860 };
const PHONE = { width: 390, height: 800 };

/** Runs `journey` in a browser; on failure the page as it was lies beside the other screenshots. */
export async function travel(journey) {
  const profile = mkdtempSync(join(tmpdir(), "loraplex-browser-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: settings.chromium,
    args: FLAGS,
    headless: true,
    baseURL: settings.base_url,
    viewport: DESKTOP,
  });
  const page = context.pages()[0];
  page.setDefaultTimeout(60_000);
  const complaints = collectComplaints(page);
  try {
    await journey(page);
    assert.deepEqual(complaints, []);
  } catch (error) {
    console.error(complaints.join("\n"));
    await page.screenshot({ path: join(settings.screenshots, "failed.png"), fullPage: true });
    throw error;
  } finally {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  }
}

/** Scripts that broke, requests to another origin, and what the security policy had to stop. */
function collectComplaints(page) {
  const complaints = [];
  page.on("pageerror", (error) => complaints.push(`script error: ${error.message}`));
  page.on("request", (request) => {
    const isOwn = request.url().startsWith(settings.base_url) || request.url().startsWith("blob:");
    if (!isOwn) complaints.push(`request to another origin: ${request.url()}`);
  });
  page.on("console", (message) => {
    if (/content security policy/i.test(message.text())) complaints.push(message.text());
  });
  return complaints;
}

export async function signIn(page, key) {
  await page.getByLabel("API key").fill(key);
  await page.keyboard.press("Enter");
}

/** The page in light, in dark and on a phone, where nothing may be wider than the screen. */
export async function picture(page, name) {
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.evaluate(twoFrames);
    await page.screenshot({ path: join(settings.screenshots, `${name}-${colorScheme}.png`) });
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(PHONE);
  await page.evaluate(twoFrames);
  const overhang = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await page.screenshot({ path: join(settings.screenshots, `${name}-phone.png`), fullPage: true });
  await page.setViewportSize(DESKTOP);
  assert.ok(overhang <= 0, `${name} is ${overhang} px wider than a phone`);
}

/** By the second frame, the one before it has been painted with the new style. */
const twoFrames = () =>
  new Promise((resolve) => {
    requestAnimationFrame(() => requestAnimationFrame(resolve));
  });
