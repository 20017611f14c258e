import { describe, expect, it } from "vitest";
import {
  conversationReducer,
  measureOf,
  turnsOf,
  type ConversationEvent,
  type Entry,
} from "./conversation";

const play = (...events: ConversationEvent[]) => events.reduce<Entry[]>(conversationReducer, []);
const asked: ConversationEvent = { type: "asked", prompt: "hi", model: "acme/shout", at: 0 };
const text = (content: string, at: number): ConversationEvent => ({
  type: "delta",
  delta: { type: "text", text: content },
  at,
});
const complete = { kind: "complete", reason: "stop" } as const;

describe("a conversation", () => {
  it("joins the deltas of the last answer", () => {
    const entries = play(asked, text("HE", 10), text("LLO", 20));
    expect(entries.map(({ content }) => content)).toEqual(["hi", "HELLO"]);
  });

  it("keeps the finish reason that the stream told", () => {
    const finished: ConversationEvent = {
      type: "delta",
      delta: { type: "finished", reason: "length" },
      at: 3,
    };
    const [, answer] = play(asked, text("A", 1), finished, {
      type: "ended",
      ending: complete,
      at: 4,
    });
    expect(answer).toMatchObject({ ending: { kind: "complete", reason: "length" }, endedAt: 4 });
  });

  it("tells a failure even after a finish reason", () => {
    const failed = { kind: "failed", message: "lost", isSignedOut: false } as const;
    const finished: ConversationEvent = {
      type: "delta",
      delta: { type: "finished", reason: "stop" },
      at: 3,
    };
    const [, answer] = play(asked, finished, { type: "ended", ending: failed, at: 4 });
    expect(answer).toMatchObject({ ending: failed });
  });

  it("does not send an answer that failed empty back to the model", () => {
    const ending = { kind: "failed", message: "lost", isSignedOut: false } as const;
    expect(turnsOf(play(asked, { type: "ended", ending, at: 1 }))).toEqual([
      { role: "user", content: "hi" },
    ]);
  });

  it("measures the time to the first token and the whole", () => {
    const usage: ConversationEvent = {
      type: "delta",
      delta: { type: "usage", outputTokens: 2 },
      at: 29,
    };
    const [, answer] = play(asked, text("A", 10), text("B", 20), usage, {
      type: "ended",
      ending: complete,
      at: 30,
    });
    expect(answer?.role === "assistant" && measureOf(answer)).toEqual({
      outputTokens: 2,
      firstTokenMs: 10,
      totalMs: 30,
    });
  });
});
