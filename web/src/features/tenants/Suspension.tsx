import { useState } from "react";
import type { TenantDetails } from "@/shared/api/types";
import { ActionButton } from "@/shared/ui/ActionButton";
import { TextField } from "@/shared/ui/fields";
import { useTenantActions } from "./api";

/** Shuts a tenant out, or lets it in again; one that is being deleted is left alone. */
export function Suspension({ tenant: { name, state } }: { tenant: TenantDetails }) {
  const { suspend, resume } = useTenantActions(name);
  const [reason, setReason] = useState("");
  if (state === "suspended") {
    return (
      <div>
        <ActionButton
          label="Resume"
          title={`Let ${name} in again?`}
          confirm="Resume it"
          action={resume}
          onConfirm={(close) => {
            resume.mutate(undefined, { onSuccess: close });
          }}
        >
          <p>Its keys and members work again within five seconds.</p>
        </ActionButton>
      </div>
    );
  }
  if (state !== "active") return null;
  return (
    <div>
      <ActionButton
        label="Suspend"
        title={`Suspend ${name}?`}
        confirm="Suspend it"
        look="danger"
        action={suspend}
        isReady={reason.trim() !== ""}
        onConfirm={(close) => {
          suspend.mutate(reason.trim(), { onSuccess: close });
        }}
      >
        <p>
          Within five seconds every gateway refuses its keys and members, and its running calls end.
          Nothing is deleted.
        </p>
        <TextField
          label="Reason"
          hint="Kept with the tenant and in the audit log."
          maxLength={500}
          value={reason}
          onChange={setReason}
        />
      </ActionButton>
    </div>
  );
}
