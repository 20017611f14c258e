import { useState } from "react";
import { aboutField, aboutNone } from "@/shared/api/problem";
import { Button } from "@/shared/ui/Button";
import { TextField } from "@/shared/ui/fields";
import { Form } from "@/shared/ui/Form";
import { Notice } from "@/shared/ui/Notice";
import { Card } from "@/shared/ui/Page";
import { useChangePassword } from "./api";

export function PasswordCard({ email }: { email: string }) {
  const change = useChangePassword();
  const [current, setCurrent] = useState("");
  const [wanted, setWanted] = useState("");
  const [isAsked, setAsked] = useState(false);
  const { error } = change;

  const submit = () => {
    setAsked(true);
    if (current === "" || wanted === "") return;
    change.mutate(
      { current_password: current, new_password: wanted },
      {
        onSuccess: () => {
          setCurrent("");
          setWanted("");
          setAsked(false);
        },
      },
    );
  };
  const missing = (text: string) => (isAsked && text === "" ? "Give it first." : null);
  return (
    <Card title="Password">
      <Form onSubmit={submit} error={aboutNone(error, "current_password", "new_password")}>
        <input // Tells password managers whose password it is.
          className="visually-hidden"
          autoComplete="username"
          value={email}
          readOnly
          tabIndex={-1}
          aria-hidden="true"
        />
        <TextField
          label="Your password now"
          type="password"
          autoComplete="current-password"
          value={current}
          error={missing(current) ?? aboutField(error, "current_password")}
          onChange={setCurrent}
        />
        <TextField
          label="New password"
          hint="12 characters or more. Everywhere else you are signed out."
          type="password"
          autoComplete="new-password"
          value={wanted}
          error={missing(wanted) ?? aboutField(error, "new_password")}
          onChange={setWanted}
        />
        {change.isSuccess && (
          <Notice tone="good" title="Your password is changed">
            Every other browser is signed out.
          </Notice>
        )}
        <div>
          <Button type="submit" disabled={change.isPending}>
            {change.isPending ? "One moment…" : "Change the password"}
          </Button>
        </div>
      </Form>
    </Card>
  );
}
