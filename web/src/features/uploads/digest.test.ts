import { expect, it } from "vitest";
import { sha256OfFile } from "./digest";

const never = new AbortController().signal;

const file = (...pieces: string[]) => ({
  stream: () =>
    new ReadableStream({
      start(controller) {
        for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece));
        controller.close();
      },
    }),
});

it("is the SHA-256 everybody computes, in whatever pieces the file comes", async () => {
  const known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  expect(await sha256OfFile(file("abc"), never)).toBe(known);
  expect(await sha256OfFile(file("a", "", "bc"), never)).toBe(known);
});

it("stops when it is cancelled", async () => {
  await expect(sha256OfFile(file("abc"), AbortSignal.abort())).rejects.toThrow();
});
