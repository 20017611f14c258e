// eslint-disable-next-line no-restricted-imports -- the outside system is the HTTP stream, which must end with the page
import { useEffect, useReducer, useRef } from "react";
import { ApiError } from "@/shared/api/problem";
import { conversationReducer, turnsOf, type Ending } from "./conversation";
import { streamChat, type Sampling } from "./stream";

export function useConversation() {
  const [entries, tell] = useReducer(conversationReducer, []);
  const abort = useRef<AbortController>(null);

  useEffect(() => () => abort.current?.abort(), []);

  const ask = async (prompt: string, model: string, sampling: Sampling) => {
    const controller = new AbortController();
    abort.current = controller;
    tell({ type: "asked", prompt, model, at: performance.now() });
    const turns = [...turnsOf(entries), { role: "user" as const, content: prompt }];
    let ending: Ending = { kind: "complete", reason: "stop" };
    try {
      for await (const delta of streamChat({ model, turns, sampling, signal: controller.signal })) {
        tell({ type: "delta", delta, at: performance.now() });
      }
    } catch (error) {
      ending = controller.signal.aborted ? { kind: "stopped" } : failed(error);
    }
    tell({ type: "ended", ending, at: performance.now() });
  };
  const last = entries.at(-1);
  return {
    entries,
    isStreaming: last?.role === "assistant" && last.endedAt === null,
    ask,
    stop: () => abort.current?.abort(),
    clear: () => {
      tell({ type: "cleared" });
    },
  };
}

function failed(error: unknown): Ending {
  if (error instanceof ApiError) {
    return { kind: "failed", message: error.message, isSignedOut: error.failure === "signed-out" };
  }
  return { kind: "failed", message: "The answer could not be read.", isSignedOut: false };
}
