import type { ReactNode } from "react";
import styles from "./Figures.module.css";

/** A few numbers that are to be seen first. */
export const Figures = ({ children }: { children: ReactNode }) => (
  <dl className={styles.figures}>{children}</dl>
);

type Props = { name: string; note?: ReactNode; children: ReactNode };

export function Figure({ name, note, children }: Props) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
      {note && <dd className={styles.note}>{note}</dd>}
    </div>
  );
}
