import { useState } from "react";
import type { CallerKey, Key } from "@/shared/api/types";
import { Button, ButtonLink } from "@/shared/ui/Button";
import { SelectField } from "@/shared/ui/fields";
import { Form } from "@/shared/ui/Form";
import { Card } from "@/shared/ui/Page";
import { ShownOnce } from "@/shared/ui/ShownOnce";
import { useKeyActions } from "./api";
import { mayRotate } from "./rules";

const OVERLAPS = [
  ["0", "At once"],
  ["3600", "In an hour"],
  ["86400", "In a day"],
  ["604800", "In 7 days"],
] as const;

/** A new text for the same rights, with time to bring it to every program that has the old one. */
export function RotateCard({ caller, apiKey }: { caller: CallerKey; apiKey: Key }) {
  const { rotate } = useKeyActions(apiKey.id);
  const [overlap, setOverlap] = useState<(typeof OVERLAPS)[number][0]>("86400");
  const made = rotate.data;
  if (!made && !mayRotate(caller, apiKey)) return null;
  return (
    <Card title="Rotate">
      {made ? (
        <ShownOnce
          title="This is the new key"
          what="API key"
          text={made.api_key}
          action={<ButtonLink to={`/keys/${made.id}`}>I have kept it</ButtonLink>}
        >
          Copy it now. It is shown this once: nobody can tell it again.
        </ShownOnce>
      ) : (
        <Form
          error={rotate.error?.message ?? null}
          onSubmit={() => {
            rotate.mutate(Number(overlap));
          }}
        >
          <SelectField
            label="The old key ends"
            hint="A new key that may the same is shown to you once. A key is rotated once: go on with its successor."
            value={overlap}
            options={OVERLAPS}
            onChange={setOverlap}
          />
          <div>
            <Button type="submit" disabled={rotate.isPending}>
              {rotate.isPending ? "One moment…" : "Rotate the key"}
            </Button>
          </div>
        </Form>
      )}
    </Card>
  );
}
