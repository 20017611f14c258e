import createClient from "openapi-fetch";
import { ApiError, apiError, networkError } from "./problem";
import type { paths } from "./schema";

/** Unsafe methods carry it: a page of another origin cannot set it on a form or a simple request. */
export const CSRF_HEADERS = { "X-Loraplex-CSRF": "1" } as const;

export const api = createClient<paths>({
  baseUrl: window.location.origin,
  headers: CSRF_HEADERS,
  fetch: (request) => globalThis.fetch(request),
});

type Answer<T> = { data?: T; error?: unknown; response: Response };

/** The body of a successful call; every other outcome becomes an ApiError (or the abort itself). */
export async function unwrap<T>(call: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await call;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw error instanceof ApiError ? error : networkError();
  }
  const { response } = answer;
  if (!response.ok) {
    throw apiError(response.status, answer.error, response.headers.get("Retry-After"));
  }
  return answer.data as T;
}
