import { useState, type ReactNode } from "react";
import { Button } from "./Button";
import { Dialog } from "./Dialog";
import { Form, FormButtons } from "./Form";

type Props = {
  label: string;
  /** What the dialog asks, and what its button does. */
  title: string;
  confirm: string;
  isDangerous?: boolean;
  isSmall?: boolean;
  /** A mutation: `isPending` while it runs, `error` once it was refused. */
  action: { isPending: boolean; error: Error | null; reset: () => void };
  onConfirm: (close: () => void) => void;
  children: ReactNode;
};

/** Does something only after it has said what that means and was told to. */
export function ActionButton(props: Props) {
  const { label, title, confirm, isDangerous = false, isSmall = true, action } = props;
  const [isOpen, setOpen] = useState(false);
  const close = () => {
    setOpen(false);
    action.reset();
  };
  return (
    <>
      <Button
        isSmall={isSmall}
        look={isDangerous ? "danger" : "plain"}
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
              props.onConfirm(close);
            }}
          >
            {props.children}
            <FormButtons>
              <Button
                type="submit"
                look={isDangerous ? "danger" : "primary"}
                disabled={action.isPending}
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
