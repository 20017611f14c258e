/** A conversation and how it moves; knows nothing of HTTP or of React. */
import type { Delta, Turn } from "./stream";

export type Ending =
  | { kind: "complete"; reason: string }
  | { kind: "stopped" }
  | { kind: "failed"; message: string; isSignedOut: boolean };

export type Measure = { outputTokens: number; firstTokenMs: number; totalMs: number };

export type Entry =
  | { role: "user"; content: string }
  | {
      role: "assistant";
      model: string;
      content: string;
      startedAt: number;
      firstTokenAt: number | null;
      outputTokens: number | null;
      endedAt: number | null;
      /** null while it streams. */
      ending: Ending | null;
    };

export type Answer = Extract<Entry, { role: "assistant" }>;

export type ConversationEvent =
  | { type: "asked"; prompt: string; model: string; at: number }
  | { type: "delta"; delta: Delta; at: number }
  | { type: "ended"; ending: Ending; at: number }
  | { type: "cleared" };

export function conversationReducer(entries: Entry[], event: ConversationEvent): Entry[] {
  switch (event.type) {
    case "cleared":
      return [];
    case "asked":
      return [
        ...entries,
        { role: "user", content: event.prompt },
        emptyAnswer(event.model, event.at),
      ];
    case "delta":
      return onLastAnswer(entries, (answer) => applyDelta(answer, event.delta, event.at));
    case "ended":
      return onLastAnswer(entries, (answer) => ({
        ...answer,
        endedAt: event.at,
        // The reason that the stream told wins over "it ended".
        ending: event.ending.kind === "complete" ? (answer.ending ?? event.ending) : event.ending,
      }));
  }
}

const emptyAnswer = (model: string, startedAt: number): Answer => ({
  role: "assistant",
  model,
  content: "",
  startedAt,
  firstTokenAt: null,
  outputTokens: null,
  endedAt: null,
  ending: null,
});

function onLastAnswer(entries: Entry[], change: (answer: Answer) => Answer): Entry[] {
  const last = entries.at(-1);
  return last?.role === "assistant" ? [...entries.slice(0, -1), change(last)] : entries;
}

function applyDelta(answer: Answer, delta: Delta, at: number): Answer {
  switch (delta.type) {
    case "text":
      return {
        ...answer,
        content: answer.content + delta.text,
        firstTokenAt: answer.firstTokenAt ?? at,
      };
    case "finished":
      return { ...answer, ending: { kind: "complete", reason: delta.reason } };
    case "usage":
      return { ...answer, outputTokens: delta.outputTokens };
  }
}

/** What the model gets to see: an answer that failed empty would only confuse it. */
export const turnsOf = (entries: Entry[]): Turn[] =>
  entries.filter(({ content }) => content !== "").map(({ role, content }) => ({ role, content }));

/** Null until the answer has ended with a count of its tokens. */
export function measureOf(answer: Answer): Measure | null {
  if (answer.endedAt === null || answer.firstTokenAt === null || answer.outputTokens === null)
    return null;
  return {
    outputTokens: answer.outputTokens,
    firstTokenMs: answer.firstTokenAt - answer.startedAt,
    totalMs: answer.endedAt - answer.startedAt,
  };
}
