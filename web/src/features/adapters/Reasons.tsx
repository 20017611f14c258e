import type { Reason } from "@/shared/api/types";
import styles from "./Reasons.module.css";

/** Why a version was rejected, in the validator's own words, with the field or tensor it means. */
export function Reasons({ reasons }: { reasons: Reason[] }) {
  return (
    <ul className={styles.reasons} aria-label="Reasons">
      {reasons.map((reason, index) => (
        <li key={index}>
          <p>{reason.message}</p>
          {reason.field && <code>{reason.field}</code>}
        </li>
      ))}
    </ul>
  );
}
