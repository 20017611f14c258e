import { describe, expect, it } from "vitest";
import { EventParser, readEvents } from "./sse";

const STREAM =
  ': keep-alive\n\ndata: {"a":1}\n\ndata: first\ndata:second\r\n\r\nevent: x\ndata: [DONE]\n\n';
const EVENTS = ['{"a":1}', "first\nsecond", "[DONE]"];

describe("EventParser", () => {
  it("gives each event's data, without comments and other fields", () => {
    expect(new EventParser().feed(STREAM)).toEqual(EVENTS);
  });

  it.each(Array.from({ length: STREAM.length - 1 }, (_, index) => index + 1))(
    "gives the same events when the text is cut after %i characters",
    (cut) => {
      const parser = new EventParser();
      expect([...parser.feed(STREAM.slice(0, cut)), ...parser.feed(STREAM.slice(cut))]).toEqual(
        EVENTS,
      );
    },
  );

  it("keeps an event back until its empty line has come", () => {
    const parser = new EventParser();
    expect(parser.feed("data: half")).toEqual([]);
    expect(parser.feed("\n")).toEqual([]);
    expect(parser.feed("\n")).toEqual(["half"]);
  });
});

describe("readEvents", () => {
  it("keeps a character whole that is cut between two reads", async () => {
    const bytes = new TextEncoder().encode("data: 日本 👩‍🚀 é\n\n");
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    });
    const events: string[] = [];
    for await (const event of readEvents(body)) events.push(event);
    expect(events).toEqual(["日本 👩‍🚀 é"]);
  });
});
