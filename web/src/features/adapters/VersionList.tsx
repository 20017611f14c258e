import type { Version } from "@/shared/api/types";
import { formatBytes, shortDigest } from "@/shared/format";
import { CopyButton } from "@/shared/ui/CopyButton";
import { Notice } from "@/shared/ui/Notice";
import { Reasons } from "./Reasons";
import { StatusBadge } from "./StatusBadge";
import { DeleteVersion } from "./VersionRemoval";
import { Ago } from "@/shared/ui/Ago";
import styles from "./VersionList.module.css";

/** The versions as they come, newest first; a rejected one says why right there. */
export function VersionList({ versions }: { versions: Version[] }) {
  return (
    <ol className={styles.versions}>
      {versions.map((version) => (
        <VersionItem key={version.version} version={version} />
      ))}
    </ol>
  );
}

function VersionItem({ version }: { version: Version }) {
  return (
    <li className={styles.version}>
      <div className={styles.line}>
        <h3>Version {version.version}</h3>
        <StatusBadge status={version.status} />
        <Ago at={version.created_at} />
        <DeleteVersion version={version} />
      </div>
      <dl className={styles.facts}>
        {version.max_rank !== null && <Fact name="Rank" value={String(version.max_rank)} />}
        <Fact name="Size" value={formatBytes(version.size_bytes)} />
        <div>
          <dt>Digest</dt>
          <dd className={styles.digest}>
            <code title={version.digest}>{shortDigest(version.digest)}</code>
            <CopyButton text={version.digest} what={`digest of version ${version.version}`} />
          </dd>
        </div>
      </dl>
      {version.quarantine_reason !== null && (
        <Notice tone="bad" title="Quarantined by the operator">
          {version.quarantine_reason}
        </Notice>
      )}
      {version.status === "rejected" && <Reasons reasons={version.reasons} />}
    </li>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
