import { formatBytes } from "@/shared/format";
import { Button } from "@/shared/ui/Button";
import { Progress } from "./Progress";
import styles from "./Steps.module.css";

type Props = { name: string; sentBytes: number; totalBytes: number; onCancel: () => void };

export function Sending({ name, sentBytes, totalBytes, onCancel }: Props) {
  const percent = totalBytes > 0 ? Math.floor((100 * sentBytes) / totalBytes) : 0;
  const isSent = sentBytes >= totalBytes;
  return (
    <div className={styles.steps}>
      <h2>Uploading {name}</h2>
      <Progress label={`Uploading ${name}`} percent={isSent ? null : percent} />
      <p className={styles.note}>
        {isSent
          ? "Everything is sent. Storing it…"
          : `${formatBytes(sentBytes)} of ${formatBytes(totalBytes)}, ${percent} %`}
      </p>
      <div>
        <Button onClick={onCancel}>Cancel</Button>
      </div>
    </div>
  );
}
