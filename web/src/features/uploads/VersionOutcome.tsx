import { useQuery } from "@tanstack/react-query";
import { versionQuery } from "@/features/adapters/api";
import { Reasons } from "@/features/adapters/Reasons";
import { StatusBadge } from "@/features/adapters/StatusBadge";
import type { Upload, Version } from "@/shared/api/types";
import { Button, ButtonLink } from "@/shared/ui/Button";
import { LoadFailed, Stale } from "@/shared/ui/LoadFailed";
import { Notice } from "@/shared/ui/Notice";
import { Skeleton } from "@/shared/ui/Skeleton";
import { Progress } from "./Progress";
import styles from "./Steps.module.css";

type Props = { upload: Upload; number: number; onAgain: () => void };

/** What becomes of a version that has arrived: checked, then ready or rejected with reasons. */
export function VersionOutcome({ upload, number, onAgain }: Props) {
  const { adapter } = upload;
  const query = useQuery(versionQuery(adapter, number));
  if (query.isLoadingError) return <LoadFailed error={query.error} onRetry={query.refetch} />;
  if (!query.data) return <Skeleton label={`Loading version ${number}`} rows={2} />;
  const version = query.data;
  const isOld = Date.parse(version.created_at) < Date.parse(upload.created_at);

  return (
    <div className={styles.steps}>
      <h2>
        {adapter}, version {number} <StatusBadge status={version.status} />
      </h2>
      {query.isRefetchError && <Stale onRetry={query.refetch} />}
      {isOld && (
        <p className={styles.note}>
          You have uploaded exactly these files before, so this is the version they became.
        </p>
      )}
      <Verdict version={version} />
      <div className={styles.buttons}>
        {version.status === "ready" && (
          <ButtonLink look="primary" to={`/chat?model=${encodeURIComponent(version.model)}`}>
            Chat with it
          </ButtonLink>
        )}
        {version.status !== "rejected" && (
          <ButtonLink to={`/adapters/${encodeURIComponent(adapter)}`}>Open {adapter}</ButtonLink>
        )}
        <Button onClick={onAgain}>
          {version.status === "rejected" ? "Upload a corrected one" : "Upload another"}
        </Button>
      </div>
    </div>
  );
}

function Verdict({ version }: { version: Version }) {
  switch (version.status) {
    case "uploaded":
    case "validating":
      return (
        <>
          <Progress label="Validating" percent={null} />
          <p className={styles.note}>
            Stored safely. Now every tensor is checked against the base model. You may leave this
            page.
          </p>
        </>
      );
    case "ready":
      return (
        <Notice tone="good" title="Ready to be called">
          Its model name is <code>{version.model}</code>.
        </Notice>
      );
    case "rejected":
      return (
        <>
          <p className={styles.note}>
            It was checked and cannot be served as it is. Nothing of it is used. What to change:
          </p>
          <Reasons reasons={version.reasons} />
        </>
      );
  }
}
