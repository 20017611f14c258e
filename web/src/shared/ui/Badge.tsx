import type { ReactNode } from "react";
import styles from "./Badge.module.css";
import { classes } from "./classes";

export type BadgeTone = "good" | "warn" | "bad" | "quiet";

type Props = { tone: BadgeTone; isMoving?: boolean; children: ReactNode };

/** A state in a word. Its colour says no more than the word does. */
export function Badge({ tone, isMoving = false, children }: Props) {
  return (
    <span className={classes(styles.badge, styles[tone], isMoving && styles.moving)}>
      {children}
    </span>
  );
}
