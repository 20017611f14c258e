import styles from "./Steps.module.css";

/** A bar that fills; with `percent` null, one that only says that something is going on. */
export function Progress({ label, percent }: { label: string; percent: number | null }) {
  return (
    <div
      className={styles.track}
      role="progressbar"
      aria-label={label}
      {...(percent !== null && {
        "aria-valuenow": percent,
        "aria-valuemin": 0,
        "aria-valuemax": 100,
      })}
    >
      <div
        className={percent === null ? styles.busy : styles.fill}
        {...(percent !== null && { style: { width: `${percent}%` } })}
      />
    </div>
  );
}
