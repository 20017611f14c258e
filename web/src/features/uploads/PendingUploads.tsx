import type { Upload } from "@/shared/api/types";
import { formatBytes } from "@/shared/format";
import { Ago } from "@/shared/ui/Ago";
import { Button } from "@/shared/ui/Button";
import { Card } from "@/shared/ui/Page";
import { useAbortUpload, usePendingUploads } from "./api";
import styles from "./PendingUploads.module.css";
import { receivedBytes, totalBytes } from "./parts";

/** Uploads that broke off. Their bytes count against the storage until they end or expire. */
export function PendingUploads({ onContinue }: { onContinue: (adapter: string) => void }) {
  const uploads = usePendingUploads();
  if (!uploads.data || uploads.data.length === 0) return null;
  return (
    <Card title="Unfinished uploads">
      <p className={styles.note}>
        Choose the same files again to go on where one stopped. What is left alone is given up when
        its time is over.
      </p>
      <ul className={styles.uploads} aria-label="Unfinished uploads">
        {uploads.data.map((upload) => (
          <PendingUpload key={upload.id} upload={upload} onContinue={onContinue} />
        ))}
      </ul>
    </Card>
  );
}

function PendingUpload({
  upload,
  onContinue,
}: {
  upload: Upload;
  onContinue: (adapter: string) => void;
}) {
  const abort = useAbortUpload();
  return (
    <li>
      <div className={styles.words}>
        <strong>{upload.adapter}</strong>
        <p className={styles.note}>
          {formatBytes(receivedBytes(upload))} of {formatBytes(totalBytes(upload))}, begun{" "}
          <Ago at={upload.created_at} />
        </p>
        {abort.isError && <p role="alert">{abort.error.message}</p>}
      </div>
      <div className={styles.buttons}>
        <Button
          isSmall
          onClick={() => {
            onContinue(upload.adapter);
          }}
        >
          Go on
        </Button>
        <Button
          isSmall
          look="quiet"
          disabled={abort.isPending}
          onClick={() => {
            abort.mutate(upload.id);
          }}
        >
          Give up
        </Button>
      </div>
    </li>
  );
}
