import { useQuery } from "@tanstack/react-query";
import type { Upload } from "@/shared/api/types";
import { Button } from "@/shared/ui/Button";
import { Stale } from "@/shared/ui/LoadFailed";
import { Notice } from "@/shared/ui/Notice";
import { uploadQuery } from "./api";
import { Progress } from "./Progress";
import styles from "./Steps.module.css";
import { VersionOutcome } from "./VersionOutcome";

type Props = { sent: Upload; onAgain: () => void };

/** What becomes of an upload whose bytes have all been sent: a version, or why there is none. */
export function Outcome({ sent, onAgain }: Props) {
  const query = useQuery({ ...uploadQuery(sent.id), initialData: sent });
  const upload = query.data;

  if (upload.version !== null) {
    return <VersionOutcome upload={upload} number={upload.version} onAgain={onAgain} />;
  }
  if (upload.status === "completing" || upload.status === "pending") {
    return (
      <div className={styles.steps}>
        <h2>Storing {upload.adapter}</h2>
        {query.isRefetchError && <Stale onRetry={query.refetch} />}
        <Progress label="Storing" percent={null} />
        <p className={styles.note}>
          Everything has arrived. Its bytes are read again and compared. You may leave this page.
        </p>
      </div>
    );
  }
  return (
    <div className={styles.steps}>
      <Notice tone="bad" title="The upload did not become a version">
        {upload.error?.message ?? `It was ${upload.status}.`}
      </Notice>
      <div className={styles.buttons}>
        <Button onClick={onAgain}>Upload again</Button>
      </div>
    </div>
  );
}
