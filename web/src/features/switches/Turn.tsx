import { useState } from "react";
import { ActionButton } from "@/shared/ui/ActionButton";
import { TextField } from "@/shared/ui/fields";
import { useTurn } from "./api";
import { meaningOf } from "./meanings";

/** Turns a switch the other way, with the reason that others will read. */
export function Turn({ name, isOn }: { name: string; isOn: boolean }) {
  const turn = useTurn(name);
  const [reason, setReason] = useState("");
  const { title, effect } = meaningOf(name);
  return (
    <ActionButton
      label={isOn ? "Turn off" : "Turn on"}
      title={`Turn ${isOn ? "off" : "on"}: ${title}?`}
      confirm={isOn ? "Turn it off" : "Turn it on"}
      look={isOn ? "plain" : "danger"}
      action={turn}
      isReady={reason.trim() !== ""}
      onConfirm={(close) => {
        turn.mutate(
          { is_on: !isOn, reason: reason.trim() },
          {
            onSuccess: () => {
              setReason("");
              close();
            },
          },
        );
      }}
    >
      <p>{isOn ? "Everything is as usual within five seconds." : effect}</p>
      <TextField
        label="Reason"
        hint="Others see it, and the audit log keeps it."
        maxLength={500}
        value={reason}
        onChange={setReason}
      />
    </ActionButton>
  );
}
