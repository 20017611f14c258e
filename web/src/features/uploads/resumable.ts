import { api, unwrap } from "@/shared/api/client";
import { ApiError } from "@/shared/api/problem";
import type { Upload } from "@/shared/api/types";
import { sha256OfFile } from "./digest";
import { isOf, missingParts, partRange, receivedBytes, type NamedDigest } from "./parts";
import { sendPart } from "./send";

/** Addresses are signed a few at a time, so that none is old when its turn comes. */
const URLS_AT_ONCE = 8;
const ATTEMPTS = 4;

type Options = {
  signal: AbortSignal;
  /** Called with the upload once it is open; `isResumed` when parts of it had come before. */
  onOpen: (upload: Upload, isResumed: boolean) => void;
  onProgress: (sentBytes: number) => void;
};

/**
 * Sends an adapter's files: goes on with a pending upload of the same bytes, or opens one. What
 * breaks off can be done again with the same files; parts that have come are not sent again.
 */
export async function sendAdapter(
  adapter: string,
  files: File[],
  { signal, onOpen, onProgress }: Options,
): Promise<Upload> {
  const digests = await Promise.all(
    files.map(async (file) => ({
      name: file.name,
      size_bytes: file.size,
      sha256: await sha256OfFile(file, signal),
    })),
  );
  const pending = await findPending(adapter, digests, signal);
  const upload = pending ?? (await open(adapter, digests, signal));
  let sentBytes = receivedBytes(upload);
  onOpen(upload, pending !== undefined && sentBytes > 0);
  onProgress(sentBytes);
  for (const described of upload.files) {
    const file = files.find(({ name }) => name === described.name);
    if (!file) continue; // `isOf` and `open` saw to it that there is one
    const missing = missingParts(described);
    for (let first = 0; first < missing.length; first += URLS_AT_ONCE) {
      const parts = missing.slice(first, first + URLS_AT_ONCE);
      for (const { part, url } of await partUrls(upload.id, file.name, parts, signal)) {
        const [start, end] = partRange(described, part);
        const before = sentBytes;
        await persist(() =>
          sendPart(url, file.slice(start, end), {
            signal,
            onProgress: (bytes) => {
              onProgress(before + Math.min(bytes, end - start));
            },
          }),
        );
        sentBytes += end - start;
        onProgress(sentBytes);
      }
    }
  }
  return complete(upload.id, signal);
}

export async function abortUpload(id: string): Promise<void> {
  const params = { path: { upload_id: id } };
  await unwrap(api.POST("/api/v1/uploads/{upload_id}/abort", { params, body: {} }));
}

async function findPending(adapter: string, files: NamedDigest[], signal: AbortSignal) {
  const query = { adapter, status: "pending" as const };
  const found = await unwrap(api.GET("/api/v1/uploads", { params: { query }, signal }));
  return found.data.find((upload) => isOf(upload, files));
}

const open = (adapter: string, files: NamedDigest[], signal: AbortSignal) =>
  unwrap(api.POST("/api/v1/uploads", { body: { adapter, files }, signal }));

async function partUrls(id: string, file: string, parts: number[], signal: AbortSignal) {
  const params = { path: { upload_id: id } };
  const body = { file, parts };
  const answer = api.POST("/api/v1/uploads/{upload_id}/part-urls", { params, body, signal });
  return (await unwrap(answer)).urls;
}

const complete = (id: string, signal: AbortSignal) =>
  persist(() =>
    unwrap(
      api.POST("/api/v1/uploads/{upload_id}/complete", {
        params: { path: { upload_id: id } },
        body: {},
        signal,
      }),
    ),
  );

/** Tries again what may pass by itself, a gateway that restarts say, a little later each time. */
async function persist<T>(call: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      const mayPass =
        error instanceof ApiError &&
        (error.failure === "network" || error.failure === "unavailable");
      if (!mayPass || attempt === ATTEMPTS) throw error;
      const seconds = error.retryAfterSeconds ?? 2 ** (attempt - 1);
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    }
  }
}
