import type { ReactNode } from "react";
import styles from "./Form.module.css";
import { Notice } from "./Notice";

type Props = {
  onSubmit: () => void;
  /** Why it did not go through, unless a field below says so itself. */
  error?: string | null;
  failed?: string;
  children: ReactNode;
};

/** Fields under each other and what sends them; Enter in any of them does so too. */
export function Form({ onSubmit, error, failed = "That did not go through", children }: Props) {
  return (
    <form
      className={styles.form}
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        onSubmit();
      }}
    >
      {children}
      {error && (
        <Notice tone="bad" title={failed}>
          {error}
        </Notice>
      )}
    </form>
  );
}

/** Fields beside each other where there is room. */
export const FormRow = ({ children }: { children: ReactNode }) => (
  <div className={styles.row}>{children}</div>
);

export const FormButtons = ({ children }: { children: ReactNode }) => (
  <div className={styles.buttons}>{children}</div>
);
