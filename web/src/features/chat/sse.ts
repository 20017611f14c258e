/** Server-sent events, taken from text that arrives in pieces cut anywhere. */
export class EventParser {
  private rest = "";
  private data: string[] = [];

  /** The data of each event that `piece` completes. */
  feed(piece: string): string[] {
    const lines = (this.rest + piece).split("\n");
    this.rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.take(line.endsWith("\r") ? line.slice(0, -1) : line));
  }

  private take(line: string): string[] {
    if (line === "") {
      const event = this.data.length > 0 ? [this.data.join("\n")] : [];
      this.data = [];
      return event;
    }
    // Comments keep a connection open; names and ids of events are not used by this API.
    if (line.startsWith("data:")) this.data.push(line.slice(line.startsWith("data: ") ? 6 : 5));
    return [];
  }
}

/** The events of a response, one by one; a character cut between two reads stays whole. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parser = new EventParser();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.feed(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.releaseLock();
  }
}
