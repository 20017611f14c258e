import { expect, it } from "vitest";
import { aVersion } from "@/testing/samples";
import { uploadReducer } from "./useUpload";

const received = { version: aVersion({ status: "uploaded" }), isNew: true };

it("counts what has been sent, then holds what came of it", () => {
  const sending = uploadReducer(
    { step: "choosing", error: null },
    { type: "started", name: "a", totalBytes: 10 },
  );
  const half = uploadReducer(sending, { type: "progressed", sentBytes: 5, totalBytes: 12 });
  expect(half).toEqual({ step: "sending", name: "a", sentBytes: 5, totalBytes: 12 });
  expect(uploadReducer(half, { type: "received", received })).toMatchObject({
    step: "received",
    name: "a",
  });
});

it("lets progress that comes late change nothing", () => {
  const done = { step: "received", name: "a", received } as const;
  expect(uploadReducer(done, { type: "progressed", sentBytes: 1, totalBytes: 2 })).toBe(done);
});
