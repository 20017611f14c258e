import { useState } from "react";
import type { Key } from "@/shared/api/types";
import { ActionButton } from "@/shared/ui/ActionButton";
import { Button } from "@/shared/ui/Button";
import { TextField } from "@/shared/ui/fields";
import { Form, FormButtons } from "@/shared/ui/Form";
import { Card } from "@/shared/ui/Page";
import { useKeyActions } from "./api";

/** Another name, put aside, or ended for good. */
export function KeyChanges({ apiKey }: { apiKey: Key }) {
  const { change, revoke } = useKeyActions(apiKey.id);
  const [name, setName] = useState(apiKey.name);
  const isDisabled = apiKey.state === "disabled";
  const isSame = name.trim() === apiKey.name || name.trim() === "";
  return (
    <Card title="Change">
      <Form
        error={change.error?.message ?? null}
        onSubmit={() => {
          if (!isSame) change.mutate({ name: name.trim() });
        }}
      >
        <TextField label="Name" maxLength={100} value={name} onChange={setName} />
        <div>
          <Button type="submit" disabled={isSame || change.isPending}>
            Rename
          </Button>
        </div>
      </Form>
      <FormButtons>
        <Button
          disabled={change.isPending}
          onClick={() => {
            change.mutate({ is_disabled: !isDisabled });
          }}
        >
          {isDisabled ? "Enable" : "Disable"}
        </Button>
        <ActionButton
          label="Revoke"
          title={`Revoke ${apiKey.name}?`}
          confirm="Revoke it for good"
          look="danger"
          isSmall={false}
          action={revoke}
          onConfirm={(close) => {
            revoke.mutate(undefined, { onSuccess: close });
          }}
        >
          <p>
            Within five seconds every call with it is refused, and sessions that were opened with it
            end. This cannot be undone; disabling it can.
          </p>
        </ActionButton>
      </FormButtons>
    </Card>
  );
}
