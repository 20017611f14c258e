import type { Version } from "@/shared/api/types";
import { classes } from "@/shared/ui/classes";
import styles from "./StatusBadge.module.css";

export function StatusBadge({ status }: Pick<Version, "status">) {
  return <span className={classes(styles.badge, styles[status])}>{status}</span>;
}
