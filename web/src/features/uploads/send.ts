import { CSRF_HEADERS } from "@/shared/api/client";
import { apiError, networkError } from "@/shared/api/problem";
import type { Version } from "@/shared/api/types";
import type { AdapterFiles } from "./picker";

export type Received = { version: Version; isNew: boolean };

type Options = { onProgress: (sentBytes: number, totalBytes: number) => void; signal: AbortSignal };

/**
 * Uploads one version. XMLHttpRequest, because fetch does not tell how much has been sent.
 * Rejects with an ApiError, or with an AbortError when `signal` ends it.
 */
export function sendVersion(
  name: string,
  files: AdapterFiles,
  options: Options,
): Promise<Received> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/api/v1/adapters/${encodeURIComponent(name)}/versions`);
    request.responseType = "text";
    for (const [header, value] of Object.entries(CSRF_HEADERS))
      request.setRequestHeader(header, value);

    request.upload.onprogress = ({ loaded, total }) => {
      options.onProgress(loaded, total);
    };
    request.onload = () => {
      const body = parse(request.responseText);
      if (request.status === 200 || request.status === 202) {
        resolve({ version: body as Version, isNew: request.status === 202 });
      } else {
        reject(apiError(request.status, body, request.getResponseHeader("Retry-After")));
      }
    };
    request.onerror = () => {
      reject(networkError());
    };
    request.onabort = () => {
      reject(new DOMException("The upload was cancelled.", "AbortError"));
    };
    options.signal.addEventListener("abort", () => {
      request.abort();
    });

    const form = new FormData();
    form.append("adapter_config", files.config);
    form.append("adapter_model", files.weights);
    request.send(form);
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // a proxy's page; the status says enough
  }
}
