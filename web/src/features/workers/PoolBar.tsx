import type { WorkerLoad } from "@/shared/api/types";
import { formatCount } from "@/shared/format";
import { classes } from "@/shared/ui/classes";
import styles from "./PoolBar.module.css";

/** Whose the pages of one pool are: running requests', the adapters', the prefix cache's, nobody's. */
export function PoolBar({ load, label }: { load: WorkerLoad; label: string }) {
  const parts = [
    { name: "KV in use", look: styles.kv, pages: load.kv_pages },
    { name: "Adapters", look: styles.adapters, pages: load.adapter_pages },
    { name: "Cached prefixes", look: styles.cached, pages: load.cached_pages },
    { name: "Free", look: styles.free, pages: load.free_pages },
  ];
  return (
    <figure className={styles.pool}>
      <figcaption>{label}</figcaption>
      <div className={styles.bar} aria-hidden="true">
        {parts.map(
          ({ name, look, pages }) =>
            pages > 0 && <div key={name} className={look} style={{ flexGrow: pages }} />,
        )}
      </div>
      <ul className={styles.legend}>
        {parts.map(({ name, look, pages }) => (
          <li key={name}>
            <span className={classes(styles.swatch, look)} aria-hidden="true" />
            {name} <strong>{formatCount(pages)}</strong>
          </li>
        ))}
      </ul>
    </figure>
  );
}
