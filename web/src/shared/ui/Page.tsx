import type { ReactNode } from "react";
import styles from "./Page.module.css";

type Props = {
  title: string;
  lead?: ReactNode;
  actions?: ReactNode;
  isNarrow?: boolean;
  children: ReactNode;
};

/** One page: its heading, what can be done with it, its content. Also names the browser's tab. */
export function Page({ title, lead, actions, isNarrow = false, children }: Props) {
  return (
    <div className={isNarrow ? styles.narrow : styles.page}>
      <title>{`${title} · Loraplex`}</title>
      <header className={styles.header}>
        <div className={styles.words}>
          <h1>{title}</h1>
          {lead && <p className={styles.lead}>{lead}</p>}
        </div>
        {actions && <div className={styles.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  );
}

export function Card({
  title,
  actions,
  children,
}: {
  title?: string;
  actions?: ReactNode;
  children: ReactNode;
}) {
  return (
    <section className={styles.card}>
      {title && (
        <div className={styles.cardHeader}>
          <h2>{title}</h2>
          {actions}
        </div>
      )}
      {children}
    </section>
  );
}
