import type { ReactNode } from "react";
import { classes } from "./classes";
import styles from "./Notice.module.css";

type Props = {
  tone: "info" | "good" | "warn" | "bad";
  title: string;
  children?: ReactNode;
  actions?: ReactNode;
};

/** Something the reader should know now; a bad one interrupts a screen reader, others wait. */
export function Notice({ tone, title, children, actions }: Props) {
  return (
    <div
      className={classes(styles.notice, styles[tone])}
      role={tone === "bad" ? "alert" : "status"}
    >
      <p className={styles.title}>{title}</p>
      {children && <div className={styles.body}>{children}</div>}
      {actions && <div className={styles.actions}>{actions}</div>}
    </div>
  );
}
