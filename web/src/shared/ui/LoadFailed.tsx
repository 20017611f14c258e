import { ApiError, type Failure } from "@/shared/api/problem";
import { Button } from "./Button";
import { Notice } from "./Notice";

const TITLES: Record<Failure, string> = {
  network: "Loraplex cannot be reached",
  "signed-out": "You are signed out",
  forbidden: "Not allowed",
  missing: "Not found",
  limited: "Too many requests",
  refused: "The request was refused",
  unavailable: "Loraplex is not able to answer",
};

/** A page whose first load failed. It explains and offers a retry; it never signs anybody out. */
export function LoadFailed({ error, onRetry }: { error: Error; onRetry: () => unknown }) {
  const failure = error instanceof ApiError ? error.failure : "unavailable";
  return (
    <Notice
      tone="bad"
      title={TITLES[failure]}
      actions={
        failure !== "missing" && (
          <Button isSmall onClick={() => void onRetry()}>
            Try again
          </Button>
        )
      }
    >
      {error.message}
    </Notice>
  );
}

/** What is shown below is real but old: the last refresh failed. */
export function Stale({ onRetry }: { onRetry: () => unknown }) {
  return (
    <Notice
      tone="warn"
      title="This may be out of date"
      actions={
        <Button isSmall onClick={() => void onRetry()}>
          Refresh
        </Button>
      }
    >
      The last refresh failed, so you are looking at what was loaded before.
    </Notice>
  );
}
