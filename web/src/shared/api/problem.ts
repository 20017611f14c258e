/** What went wrong with a call, whichever of the two error shapes told it. */
export type Failure =
  "network" | "signed-out" | "forbidden" | "missing" | "limited" | "refused" | "unavailable";

export class ApiError extends Error {
  constructor(
    readonly failure: Failure,
    message: string,
    readonly code: string | null = null,
    readonly field: string | null = null,
    readonly retryAfterSeconds: number | null = null,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

export const networkError = () =>
  new ApiError("network", "Loraplex did not answer. Check that it runs and that you are online.");

/** Reads a problem+json body, or OpenAI's `{"error": …}`, or neither (a proxy's page, say). */
export function apiError(
  status: number,
  body: unknown,
  retryAfter: string | null = null,
): ApiError {
  const told = isRecord(body) && isRecord(body.error) ? body.error : isRecord(body) ? body : {};
  const message = text(told.detail) ?? text(told.message) ?? text(told.title) ?? fallback(status);
  const seconds = retryAfter === null ? NaN : Number(retryAfter);
  return new ApiError(
    failureOf(status),
    message,
    text(told.code),
    text(told.field) ?? text(told.param),
    Number.isFinite(seconds) ? seconds : null,
  );
}

function failureOf(status: number): Failure {
  if (status === 401) return "signed-out";
  if (status === 403) return "forbidden";
  if (status === 404) return "missing";
  if (status === 429) return "limited";
  return status >= 500 ? "unavailable" : "refused";
}

function fallback(status: number): string {
  return status >= 500
    ? `Loraplex could not answer just now (status ${status}).`
    : `The request was refused (status ${status}).`;
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const text = (value: unknown) => (typeof value === "string" && value !== "" ? value : null);

/** The refusal's words if it is about that field; a nested field counts as its first name. */
export const aboutField = (error: Error | null, field: string): string | null =>
  error instanceof ApiError && error.field?.split(/[.[]/)[0] === field ? error.message : null;

/** The words of a failure that is about none of these fields. */
export const aboutNone = (error: Error | null, ...fields: string[]): string | null =>
  error && fields.every((field) => aboutField(error, field) === null) ? error.message : null;
