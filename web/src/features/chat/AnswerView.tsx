import { Link } from "react-router";
import { measureOf, type Answer, type Ending } from "./conversation";
import { classes } from "@/shared/ui/classes";
import styles from "./Transcript.module.css";

/** One answer: whose it is, its text as it comes, how it ended and what it took. */
export function AnswerView({ answer }: { answer: Answer }) {
  const isStreaming = answer.endedAt === null;
  return (
    <article aria-busy={isStreaming}>
      <h2 className={styles.model}>{answer.model}</h2>
      {isStreaming && answer.content === "" ? (
        <p className={styles.waiting} role="status">
          Waiting for the first token…
        </p>
      ) : (
        <p className={classes(styles.text, isStreaming && styles.streaming)}>{answer.content}</p>
      )}
      {answer.ending && <EndingView ending={answer.ending} />}
      <MeasureView answer={answer} />
    </article>
  );
}

function EndingView({ ending }: { ending: Ending }) {
  switch (ending.kind) {
    case "complete":
      return (
        ending.reason === "length" && <p className={styles.note}>Cut off at the token limit.</p>
      );
    case "stopped":
      return <p className={styles.note}>Stopped by you.</p>;
    case "failed":
      return (
        <p className={styles.failed} role="alert">
          {ending.message} {ending.isSignedOut && <Link to="/login?next=/chat">Sign in again</Link>}
        </p>
      );
  }
}

function MeasureView({ answer }: { answer: Answer }) {
  const measure = measureOf(answer);
  if (!measure) return null;
  const { outputTokens, firstTokenMs, totalMs } = measure;
  const decodeMs = totalMs - firstTokenMs;
  const speed = outputTokens > 1 && decodeMs > 0 ? (1000 * (outputTokens - 1)) / decodeMs : null;
  return (
    <p className={styles.note}>
      {outputTokens} {outputTokens === 1 ? "token" : "tokens"} · first after{" "}
      {(firstTokenMs / 1000).toFixed(2)} s
      {speed !== null && ` · ${speed.toFixed(speed < 10 ? 1 : 0)} tokens/s`}
    </p>
  );
}
