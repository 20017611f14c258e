import styles from "./AdapterTable.module.css";

export function NameFilter({
  value,
  onChange,
}: {
  value: string;
  onChange: (value: string) => void;
}) {
  return (
    <input
      className={styles.filter}
      type="search"
      aria-label="Filter by name"
      placeholder="Filter by name"
      value={value}
      onChange={(event) => {
        onChange(event.target.value);
      }}
    />
  );
}
