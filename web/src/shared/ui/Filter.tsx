import styles from "./Filter.module.css";

type Props = { label?: string; value: string; onChange: (value: string) => void };

/** Narrows a list that is already there. */
export function Filter({ label = "Filter by name", value, onChange }: Props) {
  return (
    <input
      className={styles.filter}
      type="search"
      aria-label={label}
      placeholder={label}
      value={value}
      onChange={(event) => {
        onChange(event.target.value);
      }}
    />
  );
}
