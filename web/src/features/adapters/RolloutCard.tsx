import type { Version } from "@/shared/api/types";
import { May } from "@/features/session/May";
import { LoadFailed, Stale } from "@/shared/ui/LoadFailed";
import { Notice } from "@/shared/ui/Notice";
import { Card } from "@/shared/ui/Page";
import { Skeleton } from "@/shared/ui/Skeleton";
import styles from "./AliasCard.module.css";
import { LATEST, useAliases } from "./aliases";
import { NewRollout } from "./NewRollout";
import { RolloutRow } from "./RolloutRow";
import { useRolloutActions, useRollouts, type RolloutActions } from "./rollouts";

/** Gives a new version to a share of an alias's conversations before it gets all of them. */
export function RolloutCard({ adapter, versions }: { adapter: string; versions: Version[] }) {
  const rollouts = useRollouts(adapter);
  const aliases = useAliases(adapter);
  const actions = useRolloutActions(adapter);
  const ready = versions.filter(({ status }) => status === "ready").map(({ version }) => version);
  const set = aliases.data?.filter(({ alias }) => alias !== LATEST) ?? [];
  return (
    <Card title="Rollouts">
      <p className={styles.note}>
        A rollout sends a share of an alias&rsquo;s conversations to another version; each
        conversation stays with the version it began with. Too many errors roll it back.
      </p>
      {rollouts.isPending && <Skeleton label="Loading rollouts" rows={2} />}
      {rollouts.isLoadingError && <LoadFailed error={rollouts.error} onRetry={rollouts.refetch} />}
      {rollouts.isRefetchError && <Stale onRetry={rollouts.refetch} />}
      <Refusal actions={actions} />
      {rollouts.data && (
        <>
          <ul aria-label="Rollouts">
            {rollouts.data.map((rollout) => (
              <RolloutRow key={rollout.id} rollout={rollout} actions={actions} />
            ))}
          </ul>
          <May scope="adapters.write">
            {set.length > 0 && ready.length > 1 ? (
              <NewRollout aliases={set} versions={ready} actions={actions} />
            ) : (
              <p className={styles.note}>It takes an alias and two ready versions to start one.</p>
            )}
          </May>
        </>
      )}
    </Card>
  );
}

function Refusal({ actions }: { actions: RolloutActions }) {
  const { start, change, pause, resume, promote, rollBack } = actions;
  const error = [start, change, pause, resume, promote, rollBack].find((one) => one.error)?.error;
  return (
    error && (
      <Notice tone="bad" title="The rollout was not changed">
        {error.message}
      </Notice>
    )
  );
}
