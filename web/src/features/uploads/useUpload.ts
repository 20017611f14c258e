import { useQueryClient } from "@tanstack/react-query";
import { useReducer, useRef } from "react";
import { adapterKeys } from "@/features/adapters/api";
import { ApiError, networkError } from "@/shared/api/problem";
import type { Upload } from "@/shared/api/types";
import { uploadKeys, uploadQuery } from "./api";
import { abortUpload, sendAdapter } from "./resumable";

/** Where sending is. After `sent`, the upload's own status, then its version's, tell the rest. */
export type Sending =
  | { step: "choosing"; error: ApiError | null }
  | {
      step: "sending";
      name: string;
      upload: Upload | null;
      isResumed: boolean;
      sentBytes: number;
      totalBytes: number;
    }
  | { step: "sent"; upload: Upload };

type Event =
  | { type: "started"; name: string; totalBytes: number }
  | { type: "opened"; upload: Upload; isResumed: boolean }
  | { type: "progressed"; sentBytes: number }
  | { type: "sent"; upload: Upload }
  | { type: "ended"; error: ApiError | null };

export function sendingReducer(sending: Sending, event: Event): Sending {
  switch (event.type) {
    case "started": {
      const { name, totalBytes } = event;
      return { step: "sending", name, upload: null, isResumed: false, sentBytes: 0, totalBytes };
    }
    case "opened":
      return sending.step === "sending"
        ? { ...sending, upload: event.upload, isResumed: event.isResumed }
        : sending;
    case "progressed":
      return sending.step === "sending" ? { ...sending, sentBytes: event.sentBytes } : sending;
    case "sent":
      return sending.step === "sending" ? { step: "sent", upload: event.upload } : sending;
    case "ended":
      return { step: "choosing", error: event.error };
  }
}

export function useUpload() {
  const client = useQueryClient();
  const [sending, tell] = useReducer(sendingReducer, { step: "choosing", error: null });
  const abort = useRef<AbortController>(null);

  const start = async (name: string, files: File[]) => {
    const controller = new AbortController();
    abort.current = controller;
    const opened: Upload[] = [];
    tell({ type: "started", name, totalBytes: files.reduce((sum, { size }) => sum + size, 0) });
    try {
      const upload = await sendAdapter(name, files, {
        signal: controller.signal,
        onOpen: (upload, isResumed) => {
          opened.push(upload);
          tell({ type: "opened", upload, isResumed });
        },
        onProgress: (sentBytes) => {
          tell({ type: "progressed", sentBytes });
        },
      });
      client.setQueryData(uploadQuery(upload.id).queryKey, upload);
      void client.invalidateQueries({ queryKey: adapterKeys.all, refetchType: "none" });
      tell({ type: "sent", upload });
    } catch (error) {
      const isCancelled = controller.signal.aborted;
      if (isCancelled) await Promise.all(opened.map(release));
      tell({ type: "ended", error: isCancelled ? null : asApiError(error) });
    }
    void client.invalidateQueries({ queryKey: uploadKeys.pending() });
  };
  const cancel = () => {
    abort.current?.abort();
  };
  const again = () => {
    tell({ type: "ended", error: null });
  };
  return { sending, start, cancel, again };
}

/** Gives up what was cancelled; where that fails the upload expires by itself. */
async function release(upload: Upload) {
  try {
    await abortUpload(upload.id);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
  }
}

const asApiError = (error: unknown) => (error instanceof ApiError ? error : networkError());
