import { useState } from "react";
import { aboutField, aboutNone } from "@/shared/api/problem";
import type { NewInvitation } from "@/shared/api/types";
import { formatDate } from "@/shared/format";
import { Button } from "@/shared/ui/Button";
import { SelectField, TextField } from "@/shared/ui/fields";
import { Form, FormRow } from "@/shared/ui/Form";
import { Card } from "@/shared/ui/Page";
import { ShownOnce } from "@/shared/ui/ShownOnce";
import type { Invited, RoleName } from "./api";
import { ROLES } from "./roles";

type Props = {
  /** The roles that may be given, and the one that is offered. */
  roles: readonly RoleName[];
  start: RoleName;
  invite: {
    data: NewInvitation | undefined;
    error: Error | null;
    isPending: boolean;
    mutate: (invited: Invited) => void;
    reset: () => void;
  };
};

/** Makes a link that its maker sends: Loraplex writes no letters. */
export function InviteCard({ roles, start, invite }: Props) {
  const [email, setEmail] = useState("");
  const [role, setRole] = useState(start);
  const [isAsked, setAsked] = useState(false);
  const made = invite.data;
  const submit = () => {
    setAsked(true);
    if (email.trim() !== "") invite.mutate({ email: email.trim(), role });
  };
  const another = () => {
    setEmail("");
    setAsked(false);
    invite.reset();
  };
  const missing = isAsked && email.trim() === "" ? "Give their e-mail address." : null;
  return (
    <Card title="Invite somebody">
      {made ? (
        <ShownOnce
          title={`Send this link to ${made.email}`}
          what="Invitation"
          text={made.link}
          action={<Button onClick={another}>Invite another</Button>}
        >
          It works once, until {formatDate(made.expires_at)}. It is shown now and not again, and
          nobody else sends it.
        </ShownOnce>
      ) : (
        <Form onSubmit={submit} error={aboutNone(invite.error, "email", "role")}>
          <FormRow>
            <TextField
              label="E-mail address"
              type="email"
              value={email}
              error={missing ?? aboutField(invite.error, "email")}
              onChange={setEmail}
            />
            <SelectField
              label="Role"
              hint={ROLES.find(([one]) => one === role)?.[1]}
              value={role}
              options={roles.map((one) => [one, one] as const)}
              error={aboutField(invite.error, "role")}
              onChange={setRole}
            />
          </FormRow>
          <div>
            <Button look="primary" type="submit" disabled={invite.isPending}>
              {invite.isPending ? "One moment…" : "Make the link"}
            </Button>
          </div>
        </Form>
      )}
    </Card>
  );
}
