import { useState } from "react";
import { useNavigate } from "react-router";
import { ActionButton } from "@/shared/ui/ActionButton";
import { TextField } from "@/shared/ui/fields";
import { useCreateTenant } from "./api";

/** Makes a tenant and goes to it: it can do nothing before somebody is invited. */
export function NewTenant() {
  const create = useCreateTenant();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [displayName, setDisplayName] = useState("");
  return (
    <ActionButton
      label="New tenant"
      title="New tenant"
      confirm="Make it"
      look="primary"
      isSmall={false}
      action={create}
      isReady={name.trim() !== ""}
      onConfirm={() => {
        create.mutate(
          { name: name.trim(), display_name: displayName.trim() },
          {
            onSuccess: (made) => void navigate(`/admin/tenants/${encodeURIComponent(made.name)}`),
          },
        );
      }}
    >
      <TextField
        label="Name"
        hint="It is part of model names and stays. Lower-case letters, digits and “-”."
        autoCapitalize="none"
        spellCheck={false}
        maxLength={63}
        value={name}
        onChange={setName}
      />
      <TextField
        label="What people call it"
        maxLength={128}
        value={displayName}
        onChange={setDisplayName}
      />
    </ActionButton>
  );
}
