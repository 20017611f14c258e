import { CopyButton } from "./CopyButton";
import styles from "./CodeBlock.module.css";

export function CodeBlock({ code, title }: { code: string; title: string }) {
  return (
    <div className={styles.block}>
      <div className={styles.bar}>
        <span>{title}</span>
        <CopyButton text={code} what={title} />
      </div>
      {/* A scrolling region must be reachable by keyboard. */}
      <pre tabIndex={0} role="region" aria-label={title}>
        <code>{code}</code>
      </pre>
    </div>
  );
}
