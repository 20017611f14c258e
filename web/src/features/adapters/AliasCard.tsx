import type { Alias, Version } from "@/shared/api/types";
import { May } from "@/features/session/May";
import { LoadFailed, Stale } from "@/shared/ui/LoadFailed";
import { Notice } from "@/shared/ui/Notice";
import { Card } from "@/shared/ui/Page";
import { Skeleton } from "@/shared/ui/Skeleton";
import { AliasRow } from "./AliasRow";
import { LATEST, useAliasActions, useAliases, type AliasActions } from "./aliases";
import { NewAlias } from "./NewAlias";
import styles from "./AliasCard.module.css";

/** Names that callers keep while versions come and go. */
export function AliasCard({ adapter, versions }: { adapter: string; versions: Version[] }) {
  const aliases = useAliases(adapter);
  const actions = useAliasActions(adapter);
  const ready = versions.filter(({ status }) => status === "ready").map(({ version }) => version);
  return (
    <Card title="Aliases">
      <p className={styles.note}>
        An alias points at one version and can be moved at any moment. <code>prod</code>, once set,
        is what the bare name means.
      </p>
      {aliases.isPending && <Skeleton label="Loading aliases" rows={2} />}
      {aliases.isLoadingError && <LoadFailed error={aliases.error} onRetry={aliases.refetch} />}
      {aliases.isRefetchError && <Stale onRetry={aliases.refetch} />}
      {aliases.data && (
        <>
          <Refusal actions={actions} />
          <ul className={styles.aliases} aria-label="Aliases">
            {aliases.data.filter(isMovable).map((alias) => (
              <AliasRow key={alias.alias} alias={alias} versions={ready} actions={actions} />
            ))}
          </ul>
          <May scope="adapters.write">
            <NewAlias
              taken={aliases.data.map(({ alias }) => alias)}
              versions={ready}
              actions={actions}
            />
          </May>
        </>
      )}
    </Card>
  );
}

const isMovable = ({ alias }: Alias) => alias !== LATEST;

function Refusal({ actions: { set, rollBack, remove } }: { actions: AliasActions }) {
  const error = set.error ?? rollBack.error ?? remove.error;
  return (
    error && (
      <Notice tone="bad" title="The alias was not moved">
        {error.message}
      </Notice>
    )
  );
}
