import { useState, type SubmitEvent } from "react";
import { Button } from "@/shared/ui/Button";
import type { AliasActions } from "./aliases";
import styles from "./AliasCard.module.css";

type Props = { taken: string[]; versions: number[]; actions: AliasActions };

/** A first alias is offered as `prod`, which is what most callers will mean. */
export function NewAlias({ taken, versions, actions: { set } }: Props) {
  const [name, setName] = useState(taken.includes("prod") ? "" : "prod");
  const [chosen, setVersion] = useState("");
  const version = chosen || String(versions[0] ?? "");
  const isTaken = taken.includes(name.trim());
  if (versions.length === 0) return null;

  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const alias = name.trim();
    set.mutate(
      { alias, version: Number(version), generation: null },
      {
        onSuccess: () => {
          setName("");
        },
      },
    );
  };
  return (
    <form className={styles.line} onSubmit={submit}>
      <input
        aria-label="New alias"
        className={styles.select}
        placeholder="canary"
        autoComplete="off"
        spellCheck={false}
        value={name}
        onChange={(event) => {
          setName(event.target.value);
        }}
      />
      <select
        aria-label="Version of the new alias"
        className={styles.select}
        value={version}
        onChange={(event) => {
          setVersion(event.target.value);
        }}
      >
        {versions.map((number) => (
          <option key={number} value={number}>
            Version {number}
          </option>
        ))}
      </select>
      <Button type="submit" isSmall disabled={name.trim() === "" || isTaken || set.isPending}>
        Add alias
      </Button>
      {isTaken && <span className={styles.note}>It is set already.</span>}
    </form>
  );
}
