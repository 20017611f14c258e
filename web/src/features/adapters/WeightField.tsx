import styles from "./AliasCard.module.css";

type Props = { label: string; value: number; onChange: (value: number) => void };

/** A whole number of percent. */
export function WeightField({ label, value, onChange }: Props) {
  return (
    <input
      type="number"
      min={0}
      max={100}
      step={1}
      aria-label={label}
      className={styles.select}
      value={value}
      onChange={(event) => {
        onChange(Math.max(0, Math.min(100, Math.round(event.target.valueAsNumber || 0))));
      }}
    />
  );
}
