import { useState } from "react";
import type { Alias } from "@/shared/api/types";
import { May } from "@/features/session/May";
import { Ago } from "@/shared/ui/Ago";
import { Button } from "@/shared/ui/Button";
import { CopyButton } from "@/shared/ui/CopyButton";
import type { AliasActions } from "./aliases";
import { AliasHistory } from "./AliasHistory";
import styles from "./AliasCard.module.css";

type Props = { alias: Alias; versions: number[]; actions: AliasActions };

export function AliasRow({ alias, versions, actions: { set, rollBack, remove } }: Props) {
  const [target, setTarget] = useState("");
  const isBusy = set.isPending || rollBack.isPending || remove.isPending;
  const others = versions.filter((version) => version !== alias.version);
  const move = () => {
    set.mutate({ alias: alias.alias, version: Number(target), generation: alias.generation });
    setTarget("");
  };
  return (
    <li className={styles.alias}>
      <div className={styles.line}>
        <h3>
          {alias.alias} <span className={styles.points}>→ v{alias.version}</span>
        </h3>
        <code>{alias.model}</code>
        <CopyButton text={alias.model} what={alias.model} />
        {alias.moved_at && <Ago at={alias.moved_at} />}
      </div>
      <May scope="adapters.write">
        <div className={styles.line}>
          <select
            aria-label={`New version of ${alias.alias}`}
            className={styles.select}
            value={target}
            onChange={(event) => {
              setTarget(event.target.value);
            }}
          >
            <option value="">Choose a version</option>
            {others.map((version) => (
              <option key={version} value={version}>
                Version {version}
              </option>
            ))}
          </select>
          <Button isSmall disabled={isBusy || target === ""} onClick={move}>
            Move
          </Button>
          <Button
            isSmall
            look="quiet"
            disabled={isBusy}
            onClick={() => {
              rollBack.mutate(alias);
            }}
          >
            Roll back
          </Button>
          <Button
            isSmall
            look="quiet"
            disabled={isBusy}
            onClick={() => {
              if (window.confirm(`Remove ${alias.alias}? Calls of ${alias.model} will be refused.`))
                remove.mutate(alias);
            }}
          >
            Remove
          </Button>
        </div>
      </May>
      <AliasHistory adapter={alias.adapter} alias={alias.alias} />
    </li>
  );
}
