import { Link } from "react-router";
import type { Adapter } from "@/shared/api/types";
import { formatBytes } from "@/shared/format";
import { Ago } from "@/shared/ui/Ago";
import { Table, type Column } from "@/shared/ui/Table";
import styles from "./AdapterTable.module.css";
import { StatusBadge } from "./StatusBadge";

const COLUMNS: Column<Adapter>[] = [
  {
    name: "Name",
    cell: ({ name }) => <Link to={`/adapters/${encodeURIComponent(name)}`}>{name}</Link>,
  },
  { name: "Newest version", cell: ({ latest_version: latest }) => <Newest version={latest} /> },
  { name: "Rank", cell: ({ latest_version: latest }) => latest?.max_rank ?? "–" },
  {
    name: "Size",
    cell: ({ latest_version: latest }) => (latest ? formatBytes(latest.size_bytes) : "–"),
  },
  { name: "Base", cell: ({ base }) => <span className={styles.base}>{base}</span> },
  {
    name: "Uploaded",
    cell: ({ latest_version: latest, created_at }) => <Ago at={latest?.created_at ?? created_at} />,
  },
];

export function AdapterTable({ adapters }: { adapters: Adapter[] }) {
  return (
    <Table
      caption="Your adapters and their newest versions"
      columns={COLUMNS}
      rows={adapters}
      keyOf={({ name }) => name}
    />
  );
}

function Newest({ version }: { version: Adapter["latest_version"] }) {
  if (!version) return "none";
  return (
    <span className={styles.version}>
      v{version.version} <StatusBadge status={version.status} />
    </span>
  );
}
