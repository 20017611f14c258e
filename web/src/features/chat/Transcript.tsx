import { AnswerView } from "./AnswerView";
import type { Entry } from "./conversation";
import styles from "./Transcript.module.css";

export function Transcript({ entries, model }: { entries: Entry[]; model: string }) {
  if (entries.length === 0) {
    return (
      <div className={styles.blank}>
        <p>
          Ask <strong>{model}</strong> something.
        </p>
        <p>What you write goes to the model and is not kept when you leave.</p>
      </div>
    );
  }
  return (
    <div className={styles.scroller} role="log" aria-label="Transcript" tabIndex={0}>
      <ol className={styles.transcript}>
        {entries.map((entry, index) => (
          <li key={index} className={styles[entry.role]}>
            {entry.role === "user" ? (
              <Prompt text={entry.content} />
            ) : (
              <AnswerView answer={entry} />
            )}
          </li>
        ))}
      </ol>
    </div>
  );
}

function Prompt({ text }: { text: string }) {
  return (
    <>
      <h2 className="visually-hidden">You</h2>
      <p className={styles.text}>{text}</p>
    </>
  );
}
