import { CSRF_HEADERS } from "@/shared/api/client";
import { ApiError, apiError, networkError } from "@/shared/api/problem";
import type { ChatBody, ChatChunk, OpenAIError } from "@/shared/api/types";
import { readEvents } from "./sse";

export type Turn = { role: "user" | "assistant"; content: string };
export type Sampling = { temperature: number; maxTokens: number };
export type Delta =
  | { type: "text"; text: string }
  | { type: "finished"; reason: string }
  | { type: "usage"; outputTokens: number };

type Ask = { model: string; turns: Turn[]; sampling: Sampling; signal: AbortSignal };

/** One streamed chat completion. Throws ApiError, before the first token or after it. */
export async function* streamChat({ model, turns, sampling, signal }: Ask): AsyncGenerator<Delta> {
  const body = {
    model,
    messages: turns,
    temperature: sampling.temperature,
    max_tokens: sampling.maxTokens,
    stream: true,
    stream_options: { include_usage: true },
  } satisfies ChatBody;
  const response = await post("/v1/chat/completions", body, signal);
  if (!response.body) throw networkError();
  for await (const event of withNetworkErrors(readEvents(response.body))) {
    if (event === "[DONE]") return;
    yield* deltasOf(JSON.parse(event) as ChatChunk | OpenAIError);
  }
  throw new ApiError("network", "The connection closed before the answer was complete.");
}

async function post(path: string, body: object, signal: AbortSignal): Promise<Response> {
  const headers = { "Content-Type": "application/json", ...CSRF_HEADERS };
  const response = await fetch(path, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
    signal,
  }).catch(rethrow);
  if (response.ok) return response;
  const told: unknown = await response.json().catch(() => null);
  throw apiError(response.status, told, response.headers.get("Retry-After"));
}

async function* withNetworkErrors(events: AsyncGenerator<string>): AsyncGenerator<string> {
  try {
    yield* events;
  } catch (error) {
    rethrow(error);
  }
}

/** fetch and its body fail with a TypeError when the network does; an abort stays an abort. */
function rethrow(error: unknown): never {
  throw error instanceof TypeError ? networkError() : error;
}

function* deltasOf(chunk: ChatChunk | OpenAIError): Generator<Delta> {
  if ("error" in chunk) throw apiError(500, chunk);
  const choice = chunk.choices[0];
  if (choice?.delta.content) yield { type: "text", text: choice.delta.content };
  if (choice?.finish_reason) yield { type: "finished", reason: choice.finish_reason };
  if (chunk.usage) yield { type: "usage", outputTokens: chunk.usage.completion_tokens };
}
