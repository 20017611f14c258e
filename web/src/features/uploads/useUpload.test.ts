import { expect, it } from "vitest";
import { anUpload } from "@/testing/samples";
import { sendingReducer } from "./useUpload";

const upload = anUpload();
const started = sendingReducer(
  { step: "choosing", error: null },
  { type: "started", name: "a", totalBytes: 10 },
);

it("counts what has been sent, then holds what was sent", () => {
  const opened = sendingReducer(started, { type: "opened", upload, isResumed: true });
  const half = sendingReducer(opened, { type: "progressed", sentBytes: 5 });
  expect(half).toEqual({
    step: "sending",
    name: "a",
    upload,
    isResumed: true,
    sentBytes: 5,
    totalBytes: 10,
  });
  expect(sendingReducer(half, { type: "sent", upload })).toEqual({ step: "sent", upload });
});

it("lets progress that comes late change nothing", () => {
  const done = { step: "sent", upload } as const;
  expect(sendingReducer(done, { type: "progressed", sentBytes: 1 })).toBe(done);
});
