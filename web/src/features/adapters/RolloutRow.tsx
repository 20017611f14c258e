import { useState } from "react";
import type { Rollout } from "@/shared/api/types";
import { May } from "@/features/session/May";
import { formatCount } from "@/shared/format";
import { Ago } from "@/shared/ui/Ago";
import { Button } from "@/shared/ui/Button";
import styles from "./AliasCard.module.css";
import type { RolloutActions } from "./rollouts";
import { WeightField } from "./WeightField";

const ENDS: Record<string, string> = {
  requested: "as you asked",
  error_rate: "for its errors",
  candidate_unusable: "since its version could not be called any more",
};

export function RolloutRow({ rollout, actions }: { rollout: Rollout; actions: RolloutActions }) {
  const { alias, stable_version: stable, version, status } = rollout;
  return (
    <li className={styles.alias}>
      <div className={styles.line}>
        <h3>
          {alias}{" "}
          <span className={styles.points}>
            v{stable} → v{version}
          </span>
        </h3>
        <span>
          {rollout.ended_at === null
            ? `${rollout.weight} % get v${version}${status === "paused" ? ", paused" : ""}`
            : `${status === "promoted" ? "promoted" : "rolled back"} ${ENDS[rollout.end_reason ?? ""] ?? ""}`}
        </span>
        <Ago at={rollout.ended_at ?? rollout.created_at} />
      </div>
      <p className={styles.note}>
        {formatCount(rollout.observed_errors)} of {formatCount(rollout.observed_requests)} requests
        failed; rolled back above {rollout.error_rate_limit} %.
      </p>
      {rollout.ended_at === null && (
        <May scope="adapters.write">
          <Controls rollout={rollout} actions={actions} />
        </May>
      )}
    </li>
  );
}

function Controls({ rollout: { id, weight, status }, actions }: Parameters<typeof RolloutRow>[0]) {
  const [wanted, setWanted] = useState(weight);
  const { change, pause, resume, promote, rollBack } = actions;
  const isBusy = [change, pause, resume, promote, rollBack].some(({ isPending }) => isPending);
  const turn = status === "paused" ? resume : pause;
  return (
    <div className={styles.line}>
      <WeightField label="Share in percent" value={wanted} onChange={setWanted} />
      <Button
        isSmall
        disabled={isBusy || wanted === weight}
        onClick={() => {
          change.mutate({ id, weight: wanted });
        }}
      >
        Set share
      </Button>
      <Button
        isSmall
        look="quiet"
        disabled={isBusy}
        onClick={() => {
          turn.mutate(id);
        }}
      >
        {status === "paused" ? "Resume" : "Pause"}
      </Button>
      <Button
        isSmall
        disabled={isBusy}
        onClick={() => {
          promote.mutate(id);
        }}
      >
        Promote
      </Button>
      <Button
        isSmall
        look="quiet"
        disabled={isBusy}
        onClick={() => {
          rollBack.mutate(id);
        }}
      >
        Roll back
      </Button>
    </div>
  );
}
