import { useState, type ReactNode } from "react";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { Form, FormButtons } from "./Form";

type Props = {
  label: string;
  /** What the dialog asks, and what its button does. */
  title: string;
  confirm: string;
  look?: "plain" | "primary" | "danger";
  isSmall?: boolean;
  /** A mutation: `isPending` while it runs, `error` once it was refused. */
  action: { isPending: boolean; error: Error | null; reset: () => void };
  /** False while something that it needs is missing. */
  isReady?: boolean;
  onConfirm: (close: () => void) => void;
  children: ReactNode;
};

/** Does something only after it has said what that means and was told to. */
export function ActionButton(props: Props) {
  const { label, title, confirm, look = "plain", isSmall = true, isReady = true, action } = props;
  const [isOpen, setOpen] = useState(false);
  const close = () => {
    setOpen(false);
    action.reset();
  };
  return (
    <>
      <Button
        isSmall={isSmall}
        look={look}
        onClick={() => {
          setOpen(true);
        }}
      >
        {label}
      </Button>
      {isOpen && (
        <Dialog title={title} onClose={close}>
          <Form
            error={action.error?.message ?? null}
            onSubmit={() => {
              if (isReady) props.onConfirm(close);
            }}
          >
            {props.children}
            <FormButtons>
              <Button
                type="submit"
                look={look === "danger" ? "danger" : "primary"}
                disabled={action.isPending || !isReady}
              >
                {action.isPending ? "One moment…" : confirm}
              </Button>
              <Button onClick={close}>Cancel</Button>
            </FormButtons>
          </Form>
        </Dialog>
      )}
    </>
  );
}
