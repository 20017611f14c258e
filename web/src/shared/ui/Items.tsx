import type { ReactNode } from "react";
import styles from "./Items.module.css";

/** A short list of things with something to do beside each. */
export const Items = ({ label, children }: { label: string; children: ReactNode }) => (
  <ul className={styles.items} aria-label={label}>
    {children}
  </ul>
);

type Props = { title: ReactNode; note: ReactNode; error?: Error | null; children: ReactNode };

export function Item({ title, note, error = null, children }: Props) {
  return (
    <li>
      <div className={styles.words}>
        <div className={styles.title}>{title}</div>
        <p className={styles.note}>{note}</p>
        {error && (
          <p className={styles.error} role="alert">
            {error.message}
          </p>
        )}
      </div>
      {children}
    </li>
  );
}
