import { useState, type SubmitEvent } from "react";
import type { Alias } from "@/shared/api/types";
import { Button } from "@/shared/ui/Button";
import styles from "./AliasCard.module.css";
import type { RolloutActions } from "./rollouts";
import { WeightField } from "./WeightField";

type Props = { aliases: Alias[]; versions: number[]; actions: RolloutActions };

export function NewRollout({ aliases, versions, actions: { start } }: Props) {
  const [chosenAlias, setAlias] = useState("");
  const [chosenVersion, setVersion] = useState("");
  const [weight, setWeight] = useState(10);
  const alias = aliases.find((one) => one.alias === chosenAlias) ?? aliases[0];
  const others = versions.filter((version) => version !== alias?.version);
  const version = others.includes(Number(chosenVersion)) ? Number(chosenVersion) : others[0];

  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    if (alias && version !== undefined) start.mutate({ alias: alias.alias, version, weight });
  };
  return (
    <form className={styles.line} onSubmit={submit}>
      <select
        aria-label="Alias to roll out on"
        className={styles.select}
        value={alias?.alias}
        onChange={(event) => {
          setAlias(event.target.value);
        }}
      >
        {aliases.map((one) => (
          <option key={one.alias} value={one.alias}>
            {one.alias} (v{one.version})
          </option>
        ))}
      </select>
      <select
        aria-label="Version to roll out"
        className={styles.select}
        value={version}
        onChange={(event) => {
          setVersion(event.target.value);
        }}
      >
        {others.map((number) => (
          <option key={number} value={number}>
            Version {number}
          </option>
        ))}
      </select>
      <WeightField label="First share in percent" value={weight} onChange={setWeight} />
      <span className={styles.note}>%</span>
      <Button type="submit" isSmall disabled={start.isPending || version === undefined}>
        Start rollout
      </Button>
    </form>
  );
}
