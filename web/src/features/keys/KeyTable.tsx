import { Link } from "react-router";
import type { Key } from "@/shared/api/types";
import { formatDate } from "@/shared/format";
import { Ago } from "@/shared/ui/Ago";
import { Table, type Column } from "@/shared/ui/Table";
import { KeyState } from "./KeyState";
import styles from "./KeyTable.module.css";
import { EVERY_MODEL } from "./rules";
import { inOrder } from "./scopes";

const COLUMNS: Column<Key>[] = [
  {
    name: "Name",
    cell: ({ id, name, label }) => (
      <span className={styles.name}>
        <Link to={`/keys/${id}`}>{name}</Link>
        <code>{label}</code>
      </span>
    ),
  },
  { name: "State", cell: (key) => <KeyState {...key} /> },
  { name: "May", cell: (key) => <span className={styles.may}>{summary(key)}</span> },
  {
    name: "Models",
    cell: ({ models }) => (
      <span className={styles.may}>{models.includes(EVERY_MODEL) ? "all" : models.join(", ")}</span>
    ),
  },
  { name: "Last used", cell: ({ last_used_at: at }) => (at ? <Ago at={at} /> : "never") },
  { name: "Ends", cell: ({ expires_at: at }) => (at ? formatDate(at) : "never") },
];

export function KeyTable({ keys }: { keys: Key[] }) {
  return <Table caption="The tenant's keys" columns={COLUMNS} rows={keys} keyOf={({ id }) => id} />;
}

const SHOWN_SCOPES = 2;

/** A few scopes are named, more are counted. */
function summary({ scopes }: Key): string {
  const ordered = inOrder(scopes);
  const more = ordered.length - SHOWN_SCOPES;
  return more <= 1
    ? ordered.join(", ")
    : `${ordered.slice(0, SHOWN_SCOPES).join(", ")} and ${more} more`;
}
