import { useQueryClient } from "@tanstack/react-query";
import { useReducer, useRef } from "react";
import { adapterKeys, versionQuery } from "@/features/adapters/api";
import { ApiError, networkError } from "@/shared/api/problem";
import type { AdapterFiles } from "./picker";
import { sendVersion, type Received } from "./send";

/** Where an upload is. After `received`, the version's own status tells the rest. */
export type Upload =
  | { step: "choosing"; error: ApiError | null }
  | { step: "sending"; name: string; sentBytes: number; totalBytes: number }
  | { step: "received"; name: string; received: Received };

type Event =
  | { type: "started"; name: string; totalBytes: number }
  | { type: "progressed"; sentBytes: number; totalBytes: number }
  | { type: "received"; received: Received }
  | { type: "ended"; error: ApiError | null };

export function uploadReducer(upload: Upload, event: Event): Upload {
  switch (event.type) {
    case "started":
      return { step: "sending", name: event.name, sentBytes: 0, totalBytes: event.totalBytes };
    case "progressed":
      return upload.step === "sending"
        ? { ...upload, sentBytes: event.sentBytes, totalBytes: event.totalBytes }
        : upload;
    case "received":
      return upload.step === "sending"
        ? { step: "received", name: upload.name, received: event.received }
        : upload;
    case "ended":
      return { step: "choosing", error: event.error };
  }
}

export function useUpload() {
  const client = useQueryClient();
  const [upload, tell] = useReducer(uploadReducer, { step: "choosing", error: null });
  const abort = useRef<AbortController>(null);

  const start = async (name: string, files: AdapterFiles) => {
    const controller = new AbortController();
    abort.current = controller;
    tell({ type: "started", name, totalBytes: files.config.size + files.weights.size });
    try {
      const received = await sendVersion(name, files, {
        signal: controller.signal,
        onProgress: (sentBytes, totalBytes) => {
          tell({ type: "progressed", sentBytes, totalBytes });
        },
      });
      const { version } = received;
      client.setQueryData(versionQuery(version.adapter, version.version).queryKey, version);
      void client.invalidateQueries({ queryKey: adapterKeys.all, refetchType: "none" });
      tell({ type: "received", received });
    } catch (error) {
      tell({ type: "ended", error: controller.signal.aborted ? null : asApiError(error) });
    }
  };
  const cancel = () => {
    abort.current?.abort();
  };
  const again = () => {
    tell({ type: "ended", error: null });
  };
  return { upload, start, cancel, again };
}

const asApiError = (error: unknown) => (error instanceof ApiError ? error : networkError());
