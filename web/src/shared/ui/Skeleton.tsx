import styles from "./Skeleton.module.css";

/** Rows of grey where content will be; a screen reader hears `label` once. */
export function Skeleton({ label, rows = 3 }: { label: string; rows?: number }) {
  return (
    <div className={styles.skeleton} role="status">
      <span className="visually-hidden">{label}</span>
      {Array.from({ length: rows }, (_, row) => (
        <div key={row} className={styles.row} aria-hidden="true" />
      ))}
    </div>
  );
}
