import { CSRF_HEADERS } from "@/shared/api/client";
import { apiError, networkError } from "@/shared/api/problem";

type Options = { onProgress: (sentBytes: number) => void; signal: AbortSignal };

/**
 * Puts one part where it was told to go. XMLHttpRequest, because fetch does not tell how much has
 * been sent. Rejects with an ApiError, or with an AbortError when `signal` ends it.
 */
export function sendPart(url: string, part: Blob, options: Options): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("PUT", url);
    request.responseType = "text";
    if (url.startsWith("/")) {
      // Another origin's signed address takes no headers of ours.
      for (const [header, value] of Object.entries(CSRF_HEADERS))
        request.setRequestHeader(header, value);
    }
    request.upload.onprogress = ({ loaded }) => {
      options.onProgress(loaded);
    };
    request.onload = () => {
      if (request.status >= 200 && request.status < 300) {
        resolve();
      } else {
        const retryAfter = request.getResponseHeader("Retry-After");
        reject(apiError(request.status, parse(request.responseText), retryAfter));
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
    options.signal.throwIfAborted();
    request.send(part);
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // a proxy's page, or the object store's XML; the status says enough
  }
}
