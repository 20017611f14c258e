import type { ReactNode } from "react";
import styles from "./EmptyState.module.css";

/** Nothing yet: what would be here, and how to get it. */
export function EmptyState({
  title,
  children,
  action,
}: {
  title: string;
  children: ReactNode;
  action?: ReactNode;
}) {
  return (
    <div className={styles.empty}>
      <h2>{title}</h2>
      <div className={styles.body}>{children}</div>
      {action}
    </div>
  );
}
