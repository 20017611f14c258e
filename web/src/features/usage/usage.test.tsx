import { act, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, it, vi } from "vitest";
import { open } from "@/testing/page";
import { TENANT } from "@/testing/samples";
import { json, problem, serve } from "@/testing/server";
import { aKey, aResult, aUsage, someLimits } from "@/testing/tenancy";

const USAGE = "GET /api/v1/usage";
const list = (...data: unknown[]) => json({ data, next_cursor: null });
const PAGE = {
  "GET /api/v1/session": json(TENANT),
  "GET /api/v1/limits": list(someLimits()),
  "GET /api/v1/keys": list(aKey()),
};

it("shows the totals, the cost to the last micro and what the cache spared", async () => {
  serve({ ...PAGE, [USAGE]: json(aUsage([aResult()])) });
  open("/usage");
  const card = (await screen.findByText("Prompt tokens", { selector: "dt" })).closest("dl");
  expect(card?.textContent).toMatch(/Requests1Prompt tokens1040 % from the cacheOutput tokens5/);
  expect(card?.textContent).toMatch(/Cost\$0\.00052/);
});

it("says that nothing was used", async () => {
  serve({ ...PAGE, [USAGE]: json(aUsage([])) });
  open("/usage");
  expect(await screen.findByRole("heading", { name: "No requests in this time" })).toBeTruthy();
});

it("tells keys apart by their names", async () => {
  const results = [
    aResult({ api_key_id: aKey().id }),
    aResult({ api_key_id: "deadbeef-0000-4000-8000-000000000000", output_tokens: 900 }),
    aResult({ output_tokens: 1 }),
  ];
  const { calls } = serve({ ...PAGE, [USAGE]: json(aUsage(results, { group_by: ["key"] })) });
  open("/usage?by=key");
  const table = within(await screen.findByRole("table", { name: "Usage by group" }));
  await table.findByText("nightly batch");
  const rows = table.getAllByRole("rowheader").map(({ textContent }) => textContent);
  expect(rows).toEqual(["deadbeef…", "nightly batch", "Without a key"]);
  const asked = calls.find(({ url }) => url.includes("/usage?"));
  expect(new URL(asked?.url ?? "").searchParams.getAll("group_by")).toEqual(["key"]);
});

it("reads the bars out one by one with the arrow keys", async () => {
  serve({ ...PAGE, [USAGE]: json(aUsage([aResult()])) });
  open("/usage");
  const chart = await screen.findByRole("slider", { name: "Tokens by the day" });
  act(() => {
    chart.focus();
  });
  await userEvent.keyboard("{ArrowLeft}{ArrowLeft}");
  expect(chart.getAttribute("aria-valuetext")).toBe("1 Mar: 15 tokens");
  await userEvent.selectOptions(screen.getByLabelText("Chart"), "Cost");
  expect(chart.getAttribute("aria-valuetext")).toBe("1 Mar: $0.00052");
});

it("asks for every page of a long time", async () => {
  const first = aUsage([aResult()], { next_cursor: "more" });
  const pages = [first, { ...aUsage([]), data: [], total: first.total }];
  const { calls } = serve({ ...PAGE, [USAGE]: () => json(pages.shift()) });
  open("/usage?period=90d");
  const total = (await screen.findByText("Requests", { selector: "dt" })).parentElement;
  expect(total?.textContent).toBe("Requests2");
  const cursors = calls
    .filter(({ url }) => url.includes("/usage?"))
    .map(({ url }) => new URL(url).searchParams.get("cursor"));
  expect(cursors).toEqual([null, "more"]);
});

it("asks for days that make sense, and says what is wrong with others", async () => {
  const { calls } = serve({ ...PAGE, [USAGE]: json(aUsage([])) });
  open("/usage?period=days&from=2026-03-05&to=2026-03-01");
  expect((await screen.findByRole("alert")).textContent).toMatch(/not be after the last/);
  expect(calls.some(({ url }) => url.includes("/usage?"))).toBe(false);
});

it("downloads the same question's answer as a file", async () => {
  const file = new Response("start,end\r\n", { headers: { "Content-Type": "text/csv" } });
  const { calls } = serve({
    ...PAGE,
    [USAGE]: json(aUsage([])),
    "GET /api/v1/usage/export": file,
  });
  const made = vi.fn(() => "blob:file");
  const click = vi.spyOn(HTMLAnchorElement.prototype, "click").mockReturnValue();
  vi.stubGlobal(
    "URL",
    class extends URL {
      static override createObjectURL = made;
      static override revokeObjectURL = vi.fn();
    },
  );
  open("/usage?period=7d&bucket=1h&by=adapter");
  await userEvent.click(await screen.findByRole("button", { name: "Download CSV" }));
  await vi.waitFor(() => {
    expect(click).toHaveBeenCalledOnce();
  });
  const asked = new URL(calls.find(({ url }) => url.includes("/export"))?.url ?? "").searchParams;
  expect([asked.get("bucket_width"), asked.get("group_by")]).toEqual(["1h", "adapter"]);
});

it("says why a file was not made", async () => {
  serve({
    ...PAGE,
    [USAGE]: json(aUsage([])),
    "GET /api/v1/usage/export": problem(400, "Too many groups.", "too_many_groups"),
  });
  open("/usage");
  await userEvent.click(await screen.findByRole("button", { name: "Download CSV" }));
  expect((await screen.findByRole("alert")).textContent).toMatch(/Too many groups/);
});

it("shows where the budgets stand, and the limits of keys by name", async () => {
  const ofKey = someLimits({ subject: "key", id: aKey().id, quotas: null });
  serve({
    ...PAGE,
    "GET /api/v1/limits": list(someLimits(), ofKey),
    [USAGE]: json(aUsage([])),
  });
  open("/usage");
  const today = (await screen.findByRole("heading", { name: "Today" })).parentElement;
  expect(today?.textContent).toBe("Today$4.20 of $5.00near its end");
  expect(screen.getByText(/\$0.25 held by running requests/)).toBeTruthy();
  expect(screen.getByText("3 of 60")).toBeTruthy();
  expect(screen.getByText("at most 10")).toBeTruthy();
  expect(await screen.findByRole("rowheader", { name: "nightly batch" })).toBeTruthy();
});

it("shows no limits to whom they are not for", async () => {
  const session = json({ ...TENANT, scopes: ["usage.read"] });
  serve({ ...PAGE, "GET /api/v1/session": session, [USAGE]: json(aUsage([])) });
  open("/usage");
  expect(await screen.findByText("What was used")).toBeTruthy();
  expect(screen.queryByText("Limits and budgets")).toBeNull();
});
