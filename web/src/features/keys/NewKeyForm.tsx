import { useState } from "react";
import { aboutField, aboutNone } from "@/shared/api/problem";
import type { CallerKey, Scope } from "@/shared/api/types";
import { formatInstant } from "@/shared/format";
import { Button, ButtonLink } from "@/shared/ui/Button";
import { Choices } from "@/shared/ui/Choices";
import { SelectField, TextField } from "@/shared/ui/fields";
import { Form, FormButtons } from "@/shared/ui/Form";
import type { useCreateKey } from "./api";
import { endOf, lifetimes, type Lifetime } from "./expiry";
import { ModelChoice } from "./ModelChoice";
import { inOrder, MEANINGS } from "./scopes";

type Props = { caller: CallerKey; create: ReturnType<typeof useCreateKey> };

/** Offers what the caller may, and nothing beyond. */
export function NewKeyForm({ caller, create }: Props) {
  const offered = inOrder(caller.scopes);
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<Scope[]>(offered.filter((one) => one === "models.call"));
  const [models, setModels] = useState(caller.models);
  const [lifetime, setLifetime] = useState<Lifetime>("");
  const [isAsked, setAsked] = useState(false);

  const submit = () => {
    setAsked(true);
    if (name.trim() === "" || scopes.length === 0 || models.length === 0) return;
    create.mutate({
      name: name.trim(),
      scopes,
      models,
      expires_at: endOf(lifetime, Date.now()),
    });
  };
  const { error } = create;
  const missing = (isMissing: boolean, words: string) => (isAsked && isMissing ? words : null);
  return (
    <Form onSubmit={submit} error={aboutNone(error, "name", "scopes", "models", "expires_at")}>
      <TextField
        label="Name"
        hint="What it is for."
        maxLength={100}
        value={name}
        error={missing(name.trim() === "", "Give it a name.") ?? aboutField(error, "name")}
        onChange={setName}
      />
      <Choices
        legend="What it may do"
        kind="checkbox"
        choices={offered.map((scope) => ({
          value: scope,
          name: MEANINGS[scope],
          meaning: scope,
        }))}
        chosen={scopes}
        error={missing(scopes.length === 0, "Choose one or more.") ?? aboutField(error, "scopes")}
        onChange={setScopes}
      />
      <ModelChoice
        caller={caller}
        models={models}
        error={missing(models.length === 0, "Name one or more.") ?? aboutField(error, "models")}
        onChange={setModels}
      />
      <SelectField
        label="Ends"
        hint={
          caller.expires_at
            ? `At the latest with your own key, ${formatInstant(caller.expires_at)}.`
            : "Without an end it lasts until somebody revokes it."
        }
        value={lifetime}
        options={lifetimes(caller.expires_at !== null)}
        error={aboutField(error, "expires_at")}
        onChange={setLifetime}
      />
      <FormButtons>
        <Button look="primary" type="submit" disabled={create.isPending}>
          {create.isPending ? "One moment…" : "Make the key"}
        </Button>
        <ButtonLink to="/keys">Cancel</ButtonLink>
      </FormButtons>
    </Form>
  );
}
