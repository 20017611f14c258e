import { CopyButton } from "./CopyButton";
import styles from "./CodeBlock.module.css";

export function CodeBlock({ code, what }: { code: string; what: string }) {
  return (
    <div className={styles.block}>
      {/* A scrolling region must be reachable by keyboard. */}
      <pre tabIndex={0} aria-label={what}>
        <code>{code}</code>
      </pre>
      <div className={styles.copy}>
        <CopyButton text={code} what={what} />
      </div>
    </div>
  );
}
