import { Link } from "react-router";
import type { Adapter } from "@/shared/api/types";
import { formatBytes } from "@/shared/format";
import { StatusBadge } from "./StatusBadge";
import { Ago } from "@/shared/ui/Ago";
import styles from "./AdapterTable.module.css";

export function AdapterTable({ adapters }: { adapters: Adapter[] }) {
  return (
    <div className={styles.frame}>
      <table className={styles.table}>
        <caption className="visually-hidden">Your adapters and their newest versions</caption>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Newest version</th>
            <th scope="col">Rank</th>
            <th scope="col">Size</th>
            <th scope="col">Base</th>
            <th scope="col">Uploaded</th>
          </tr>
        </thead>
        <tbody>
          {adapters.map((adapter) => (
            <AdapterRow key={adapter.name} adapter={adapter} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function AdapterRow({
  adapter: { name, base, created_at, latest_version: latest },
}: {
  adapter: Adapter;
}) {
  const at = latest?.created_at ?? created_at;
  return (
    <tr>
      <th scope="row">
        <Link to={`/adapters/${encodeURIComponent(name)}`}>{name}</Link>
      </th>
      <td data-label="Newest version">
        {latest ? (
          <span className={styles.version}>
            v{latest.version} <StatusBadge status={latest.status} />
          </span>
        ) : (
          "none"
        )}
      </td>
      <td data-label="Rank">{latest?.max_rank ?? "–"}</td>
      <td data-label="Size">{latest ? formatBytes(latest.size_bytes) : "–"}</td>
      <td data-label="Base" className={styles.base}>
        {base}
      </td>
      <td data-label="Uploaded">
        <Ago at={at} />
      </td>
    </tr>
  );
}
