import { useId, type ReactNode } from "react";
import styles from "./Dialog.module.css";

type Props = { title: string; onClose: () => void; children: ReactNode };

/** Asks before anything else goes on. The browser keeps the focus in it, and Escape closes it. */
export function Dialog({ title, onClose, children }: Props) {
  const titleId = useId();
  return (
    <dialog
      ref={open}
      className={styles.dialog}
      aria-labelledby={titleId}
      onClose={({ currentTarget }) => {
        if (!currentTarget.open) onClose();
      }}
    >
      <div className={styles.content}>
        <h2 id={titleId}>{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

/** Closing it, not taking it away, gives the focus back to where it was. */
function open(dialog: HTMLDialogElement) {
  dialog.showModal();
  return () => {
    dialog.close();
  };
}
