import { useState } from "react";
import type { AliasMove } from "@/shared/api/types";
import { formatInstant } from "@/shared/format";
import { LoadFailed } from "@/shared/ui/LoadFailed";
import { Skeleton } from "@/shared/ui/Skeleton";
import { useAliasMoves } from "./aliases";
import styles from "./AliasCard.module.css";

const WORDS: Record<AliasMove["kind"], string> = {
  set: "set",
  removed: "removed",
  rolled_back: "rolled back",
  promoted: "promoted by a rollout",
};

/** Every move, asked for only when somebody wants to see it. */
export function AliasHistory({ adapter, alias }: { adapter: string; alias: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details
      className={styles.history}
      onToggle={(event) => {
        setOpen(event.currentTarget.open);
      }}
    >
      <summary>History</summary>
      {isOpen && <Moves adapter={adapter} alias={alias} />}
    </details>
  );
}

function Moves({ adapter, alias }: { adapter: string; alias: string }) {
  const moves = useAliasMoves(adapter, alias);
  if (moves.isPending) return <Skeleton label={`Loading the history of ${alias}`} rows={1} />;
  if (moves.isLoadingError) return <LoadFailed error={moves.error} onRetry={moves.refetch} />;
  return (
    <ol>
      {moves.data.map((move) => (
        <li key={move.generation}>
          <time dateTime={move.moved_at}>{formatInstant(move.moved_at)}</time> {WORDS[move.kind]}:{" "}
          {named(move.from_version)} → {named(move.to_version)}
        </li>
      ))}
    </ol>
  );
}

const named = (version: number | null) => (version === null ? "nothing" : `v${version}`);
