import { useId, type ReactNode } from "react";
import styles from "./Field.module.css";

export type FieldIds = { id: string; "aria-describedby"?: string; "aria-invalid"?: true };

type Props = {
  label: string;
  hint?: ReactNode;
  error?: string | null;
  children: (ids: FieldIds) => ReactNode;
};

/** A label, its control, and the hint or the error that a screen reader reads with it. */
export function Field({ label, hint, error, children }: Props) {
  const id = useId();
  const noteId = `${id}-note`;
  const ids: FieldIds = {
    id,
    ...((hint ?? error) && { "aria-describedby": noteId }),
    ...(error && { "aria-invalid": true }),
  };
  return (
    <div className={styles.field}>
      <label htmlFor={id}>{label}</label>
      {children(ids)}
      {error ? (
        <p id={noteId} className={styles.error} role="alert">
          {error}
        </p>
      ) : (
        hint && (
          <p id={noteId} className={styles.hint}>
            {hint}
          </p>
        )
      )}
    </div>
  );
}
