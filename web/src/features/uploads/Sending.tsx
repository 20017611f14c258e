import type { Upload } from "@/shared/api/types";
import { formatBytes } from "@/shared/format";
import { Button } from "@/shared/ui/Button";
import { Progress } from "./Progress";
import styles from "./Steps.module.css";

type Props = {
  name: string;
  upload: Upload | null;
  isResumed: boolean;
  sentBytes: number;
  totalBytes: number;
  onCancel: () => void;
};

export function Sending({ name, upload, isResumed, sentBytes, totalBytes, onCancel }: Props) {
  const percent = totalBytes > 0 ? Math.floor((100 * sentBytes) / totalBytes) : 0;
  const isSent = sentBytes >= totalBytes;
  return (
    <div className={styles.steps}>
      <h2>Uploading {name}</h2>
      <Progress label={`Uploading ${name}`} percent={!upload || isSent ? null : percent} />
      <p className={styles.note}>
        {!upload
          ? "Reading the files…"
          : isSent
            ? "Everything is sent. Storing it…"
            : `${formatBytes(sentBytes)} of ${formatBytes(totalBytes)}, ${percent} %`}
        {isResumed && !isSent && " – going on where it stopped"}
      </p>
      <div>
        <Button onClick={onCancel}>Cancel</Button>
      </div>
    </div>
  );
}
