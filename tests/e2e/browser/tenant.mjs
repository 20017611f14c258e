/** A tenant signs in, uploads adapters good and broken, chats with the good one, moves its alias, leaves. */
import assert from "node:assert/strict";
import { picture, settings, signIn, travel } from "./browser.mjs";

await travel(async (page) => {
  await refuseWrongKey(page);
  await listAdapters(page);
  await uploadGoodAdapter(page);
  await readHowToCall(page);
  await chat(page);
  await stopAnAnswer(page);
  await movePointers(page);
  await uploadBrokenAdapter(page);
  await leave(page);
});

async function refuseWrongKey(page) {
  await page.goto("/adapters");
  await signIn(page, "lpx_this-is-no-key");
  await page.getByRole("alert").getByText("does not know this key").waitFor();
  await picture(page, "sign-in-refused");
}

async function listAdapters(page) {
  await signIn(page, settings.key);
  await page.getByRole("heading", { name: "Adapters" }).waitFor();
  for (const name of settings.own_adapters) {
    const row = page
      .getByRole("row")
      .filter({ has: page.getByRole("link", { name, exact: true }) });
    await row.getByText("ready").waitFor();
  }
  await page.getByText(settings.tenant, { exact: true }).waitFor();
  assert.equal(await page.evaluate(() => document.cookie), "", "no script can read the session");
  await picture(page, "adapters");
}

async function uploadGoodAdapter(page) {
  await page.getByRole("link", { name: "Upload an adapter" }).click();
  await page.getByLabel("Adapter folder").setInputFiles(settings.good_folder);
  await page.getByRole("region", { name: "Chosen files" }).waitFor();
  assert.equal(await page.getByLabel("Adapter name").inputValue(), settings.good_name);
  await picture(page, "upload-chosen");

  const slow = await page.context().newCDPSession(page);
  const conditions = { offline: false, latency: 0, downloadThroughput: -1 };
  await slow.send("Network.enable");
  await slow.send("Network.emulateNetworkConditions", {
    ...conditions,
    uploadThroughput: 400 * 1024,
  });
  await page.getByRole("button", { name: "Upload", exact: true }).click();
  const percents = await percentsUntilSent(page);
  assert.ok(percents.length >= 2, `the progress that was shown: ${percents.join(", ")}`);
  assert.deepEqual(
    percents,
    percents.toSorted((a, b) => a - b),
  );
  await slow.send("Network.emulateNetworkConditions", { ...conditions, uploadThroughput: -1 });
  await slow.detach();

  await page.getByText("Ready to be called").waitFor();
  await picture(page, "upload-ready");
}

/** The distinct percentages that the progress bar shows while the upload lasts. */
function percentsUntilSent(page) {
  return page.evaluate(
    () =>
      new Promise((resolve) => {
        const seen = new Set();
        const look = () => {
          const bar = document.querySelector("[role=progressbar][aria-valuenow]");
          if (bar) seen.add(Number(bar.getAttribute("aria-valuenow")));
          else if (seen.size > 0) resolve([...seen]);
          if (bar || seen.size === 0) requestAnimationFrame(look);
        };
        look();
      }),
  );
}

async function readHowToCall(page) {
  await page.getByRole("link", { name: `Open ${settings.good_name}` }).click();
  const model = `${settings.tenant}/${settings.good_name}`;
  await page.getByText(`${model}:v1`, { exact: true }).waitFor();
  await page.getByRole("button", { name: "Python (openai)" }).click();
  const snippet = await page.getByRole("region", { name: "Python" }).textContent();
  assert.ok(snippet.includes(`base_url="${settings.base_url}/v1"`), snippet);
  assert.ok(snippet.includes(`model="${model}"`), snippet);
  await picture(page, "adapter");
}

async function chat(page) {
  await page.getByRole("link", { name: "Chat with it" }).click();
  await page.getByLabel("Temperature").fill("0");
  await page.getByLabel("Max tokens").fill(String(settings.max_tokens));
  await page.getByLabel("Message").fill(settings.question);
  const lengths = answerLengths(page);
  await page.keyboard.press("Enter");
  const answer = page.getByRole("article");
  await answer.getByText("tokens/s").waitFor();
  assert.equal(await answer.locator("p").first().textContent(), settings.answer);
  assert.ok((await lengths) >= 3, "the answer came piece by piece");
  await picture(page, "chat");
}

/** How many different lengths an answer has had when its measure appears. */
function answerLengths(page) {
  return page.evaluate(
    () =>
      new Promise((resolve) => {
        const seen = new Set();
        const observer = new MutationObserver(() => {
          const article = document.querySelector("article");
          if (article?.getAttribute("aria-busy") === "true") {
            seen.add(article.querySelector("p").textContent.length);
          } else if (article) {
            observer.disconnect();
            resolve(seen.size);
          }
        });
        observer.observe(document.body, {
          subtree: true,
          childList: true,
          characterData: true,
          attributes: true,
        });
      }),
  );
}

/** The base without an adapter, because it tells long stories. */
async function stopAnAnswer(page) {
  await page.getByLabel("Model", { exact: true }).selectOption(settings.base);
  await page.getByLabel("Max tokens").fill("1000");
  await page.getByLabel("Message").fill("Tell me a long story about the sea.");
  await page.keyboard.press("Enter");
  await page
    .getByRole("article")
    .nth(1)
    .getByText("Waiting for the first token")
    .waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText("Stopped by you.").waitFor();
  await page.getByRole("button", { name: "Send" }).waitFor();
}

/** An alias to a second version and back by way of a rollout. */
async function movePointers(page) {
  await page.getByRole("link", { name: "Upload", exact: true }).click();
  await page.getByLabel("Adapter folder").setInputFiles(settings.second_folder);
  await page.getByLabel("Adapter name").fill(settings.good_name);
  await page.getByRole("button", { name: "Upload", exact: true }).click();
  await page.getByText("Ready to be called").waitFor();
  await page.getByRole("link", { name: `Open ${settings.good_name}` }).click();

  const alias = page.getByRole("list", { name: "Aliases" }).getByRole("listitem");
  await page.getByLabel("Version of the new alias").selectOption("Version 1");
  await page.getByRole("button", { name: "Add alias" }).click();
  await alias.getByRole("heading", { name: "prod → v1" }).waitFor();
  await page.getByLabel("New version of prod").selectOption("Version 2");
  await alias.getByRole("button", { name: "Move", exact: true }).click();
  await alias.getByRole("heading", { name: "prod → v2" }).waitFor();

  await page.getByLabel("First share in percent").fill("25");
  await page.getByRole("button", { name: "Start rollout" }).click();
  const rollout = page.getByRole("list", { name: "Rollouts" }).getByRole("listitem");
  await rollout.getByText("25 % get v1").waitFor();
  await rollout.getByLabel("Share in percent").fill("50");
  await rollout.getByRole("button", { name: "Set share" }).click();
  await rollout.getByText("50 % get v1").waitFor();
  await picture(page, "pointers");
  await rollout.getByRole("button", { name: "Promote" }).click();
  await rollout.getByText("promoted").waitFor();
  await alias.getByRole("heading", { name: "prod → v1" }).waitFor();
}

async function uploadBrokenAdapter(page) {
  await page.getByRole("link", { name: "Upload", exact: true }).click();
  await page.getByLabel("Adapter files").setInputFiles(settings.broken_files);
  await page.getByLabel("Adapter name").fill(settings.broken_name);
  await page.getByRole("button", { name: "Upload", exact: true }).click();
  const reasons = page.getByRole("list", { name: "Reasons" });
  await reasons.waitFor();
  const words = await reasons.textContent();
  assert.match(words, new RegExp(settings.broken_reason), words);
  await picture(page, "upload-rejected");
}

async function leave(page) {
  await page.getByRole("link", { name: "Adapters" }).click();
  const broken = page.getByRole("row").filter({ hasText: settings.broken_name });
  await broken.getByText("rejected").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("API key").waitFor();
  await page.goto("/adapters");
  await page.getByLabel("API key").waitFor();
}
