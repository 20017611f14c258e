import { describe, expect, it } from "vitest";
import { serve } from "@/testing/server";
import { json } from "@/testing/server";
import { streamChat, type Delta } from "./stream";

const CHAT = "POST /v1/chat/completions";
const chunk = (text: string, reason: string | null = null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: text }, finish_reason: reason }] })}\n\n`;
const usage = 'data: {"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2}}\n\n';
const events = (text: string) =>
  new Response(text, { headers: { "Content-Type": "text/event-stream" } });

async function ask(): Promise<Delta[]> {
  const deltas: Delta[] = [];
  const stream = streamChat({
    model: "acme/shout",
    turns: [{ role: "user", content: "hi" }],
    sampling: { temperature: 0, maxTokens: 8 },
    signal: new AbortController().signal,
  });
  for await (const delta of stream) deltas.push(delta);
  return deltas;
}

describe("streamChat", () => {
  it("yields text, the finish reason and the usage in their order", async () => {
    serve({ [CHAT]: events(`${chunk("HI")}${chunk("", "stop")}${usage}data: [DONE]\n\n`) });
    expect(await ask()).toEqual([
      { type: "text", text: "HI" },
      { type: "finished", reason: "stop" },
      { type: "usage", outputTokens: 2 },
    ]);
  });

  it("asks with the CSRF header and for usage", async () => {
    const { calls } = serve({ [CHAT]: events("data: [DONE]\n\n") });
    await ask();
    expect(calls[0]?.headers.get("X-Loraplex-CSRF")).toBe("1");
    expect(await calls[0]?.json()).toMatchObject({
      model: "acme/shout",
      max_tokens: 8,
      stream_options: { include_usage: true },
    });
  });

  it("throws what the server said when it refuses before the first token", async () => {
    const error = {
      message: "No such model.",
      type: "invalid_request_error",
      param: "model",
      code: "model_not_found",
    };
    serve({ [CHAT]: json({ error }, 404) });
    await expect(ask()).rejects.toMatchObject({
      failure: "missing",
      message: "No such model.",
      field: "model",
    });
  });

  it("throws the error event that ends a stream after its first token", async () => {
    serve({
      [CHAT]: events(`${chunk("HI")}data: {"error":{"message":"The worker was lost."}}\n\n`),
    });
    await expect(ask()).rejects.toMatchObject({ message: "The worker was lost." });
  });

  it("does not take a connection that closed early for a complete answer", async () => {
    serve({ [CHAT]: events(chunk("HI")) });
    await expect(ask()).rejects.toMatchObject({ failure: "network" });
  });

  it("says that nothing answered when the network fails", async () => {
    serve({ [CHAT]: () => Promise.reject(new TypeError("Failed to fetch")) });
    await expect(ask()).rejects.toMatchObject({ failure: "network" });
  });
});
