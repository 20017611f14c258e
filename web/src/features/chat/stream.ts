import { CSRF_HEADERS } from "@/shared/api/client";
import { ApiError, apiError, isRecord, networkError } from "@/shared/api/problem";
import { readEvents } from "./sse";

export type Turn = { role: "user" | "assistant"; content: string };
export type Sampling = { temperature: number; maxTokens: number };
export type Delta =
  | { type: "text"; text: string }
  | { type: "finished"; reason: string }
  | { type: "usage"; promptTokens: number; outputTokens: number };

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
  };
  const response = await post("/v1/chat/completions", body, signal);
  if (!response.body) throw networkError();
  for await (const event of withNetworkErrors(readEvents(response.body))) {
    if (event === "[DONE]") return;
    yield* deltasOf(JSON.parse(event));
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

function* deltasOf(chunk: unknown): Generator<Delta> {
  if (!isRecord(chunk)) return;
  if (isRecord(chunk.error)) throw apiError(500, chunk);
  const choice: unknown = Array.isArray(chunk.choices) ? chunk.choices[0] : null;
  if (isRecord(choice)) {
    if (isRecord(choice.delta) && typeof choice.delta.content === "string") {
      yield { type: "text", text: choice.delta.content };
    }
    if (typeof choice.finish_reason === "string") {
      yield { type: "finished", reason: choice.finish_reason };
    }
  }
  if (isRecord(chunk.usage)) {
    const { prompt_tokens: prompt, completion_tokens: output } = chunk.usage;
    yield { type: "usage", promptTokens: Number(prompt), outputTokens: Number(output) };
  }
}
