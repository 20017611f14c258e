import { expect, it, vi } from "vitest";
import { anUpload } from "@/testing/samples";
import { json, problem, serve } from "@/testing/server";
import { sha256OfFile } from "./digest";
import { sendAdapter } from "./resumable";

const ADAPTER = "support";
const ID = anUpload().id;
const UPLOADS = "/api/v1/uploads";
const never = new AbortController().signal;

/** A file whose stream the test environment has too. */
function aFile(name: string, text: string): File {
  const file = new File([text], name);
  file.stream = () =>
    new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode(text));
        controller.close();
      },
    });
  return file;
}

/** Takes parts as the gateway would; `statuses` are its answers, 200 when they are used up. */
function takeParts(...statuses: number[]) {
  const taken: { url: string; bytes: number }[] = [];
  class Request {
    upload: { onprogress?: (event: { loaded: number }) => void } = {};
    onload?: () => void;
    status = 0;
    responseText = "";
    url = "";
    open(_: string, url: string) {
      this.url = url;
    }
    setRequestHeader = () => undefined;
    getResponseHeader() {
      return "0";
    }
    send(part: Blob) {
      this.status = statuses.shift() ?? 200;
      if (this.status === 200) taken.push({ url: this.url, bytes: part.size });
      this.upload.onprogress?.({ loaded: part.size });
      this.onload?.();
    }
  }
  vi.stubGlobal("XMLHttpRequest", Request);
  return taken;
}

async function uploadOf(file: File, partsReceived: number[]) {
  const described = {
    name: file.name,
    size_bytes: file.size,
    sha256: await sha256OfFile(file, never),
    part_bytes: 4,
    parts_received: partsReceived,
  };
  return anUpload({ files: [described] });
}

const urls = (...parts: number[]) =>
  json({
    urls: parts.map((part) => ({ part, url: `/put/${part}`, size_bytes: 4, expires_at: null })),
  });

const list = (...data: unknown[]) => json({ data, next_cursor: null });

it("opens an upload, sends its parts in order and completes it", async () => {
  const file = aFile("a.zip", "0123456789");
  const upload = await uploadOf(file, []);
  const done = { ...upload, status: "completing" as const };
  const taken = takeParts();
  const { calls } = serve({
    [`GET ${UPLOADS}`]: list(),
    [`POST ${UPLOADS}`]: json(upload, 201),
    [`POST ${UPLOADS}/${ID}/part-urls`]: urls(1, 2, 3),
    [`POST ${UPLOADS}/${ID}/complete`]: json(done, 202),
  });
  const progress: number[] = [];
  const onOpen = vi.fn();
  const sent = await sendAdapter(ADAPTER, [file], {
    signal: never,
    onOpen,
    onProgress: (bytes) => progress.push(bytes),
  });
  expect(sent.status).toBe("completing");
  expect(onOpen).toHaveBeenCalledWith(upload, false);
  expect(taken.map(({ bytes }) => bytes)).toEqual([4, 4, 2]);
  expect(progress).toEqual(progress.toSorted((a, b) => a - b));
  expect(progress.at(-1)).toBe(10);
  const opened = calls.find(({ method, url }) => method === "POST" && url.endsWith(UPLOADS));
  expect(await opened?.json()).toMatchObject({ adapter: ADAPTER, files: [{ name: "a.zip" }] });
});

it("goes on with a pending upload of the same bytes, and sends no part twice", async () => {
  const file = aFile("a.zip", "0123456789");
  const upload = await uploadOf(file, [1, 3]);
  const other = { ...(await uploadOf(aFile("a.zip", "abcdefghij"), [1])), id: "other" };
  const taken = takeParts();
  serve({
    [`GET ${UPLOADS}`]: list(other, upload),
    [`POST ${UPLOADS}/${ID}/part-urls`]: urls(2),
    [`POST ${UPLOADS}/${ID}/complete`]: json({ ...upload, status: "completing" }, 202),
  });
  const onOpen = vi.fn();
  await sendAdapter(ADAPTER, [file], { signal: never, onOpen, onProgress: () => undefined });
  expect(onOpen).toHaveBeenCalledWith(upload, true);
  expect(taken.map(({ url }) => url)).toEqual(["/put/2"]);
});

it("sends a part again when the gateway was away, and gives up on a refusal", async () => {
  const file = aFile("a.zip", "0123");
  const upload = await uploadOf(file, []);
  const answers = {
    [`GET ${UPLOADS}`]: list(upload),
    [`POST ${UPLOADS}/${ID}/part-urls`]: urls(1),
    [`POST ${UPLOADS}/${ID}/complete`]: json({ ...upload, status: "completing" }, 202),
  };
  const options = { signal: never, onOpen: () => undefined, onProgress: () => undefined };
  serve(answers);
  const taken = takeParts(503, 503);
  await sendAdapter(ADAPTER, [file], options);
  expect(taken).toHaveLength(1);

  serve({ ...answers, [`GET ${UPLOADS}`]: problem(413, "Too large.", "storage_quota_exceeded") });
  await expect(sendAdapter(ADAPTER, [file], options)).rejects.toThrow("Too large.");
});
