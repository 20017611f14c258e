import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { May } from "@/features/session/May";
import type { Version } from "@/shared/api/types";
import { ActionButton } from "@/shared/ui/ActionButton";
import { Ago } from "@/shared/ui/Ago";
import { Button } from "@/shared/ui/Button";
import { Item, Items } from "@/shared/ui/Items";
import { Loaded } from "@/shared/ui/Loaded";
import { deletedVersionsQuery, useVersionRemoval } from "./removal";
import styles from "./VersionList.module.css";

export function DeleteVersion({ version: { adapter, version } }: { version: Version }) {
  const { remove } = useVersionRemoval(adapter, version);
  return (
    <May scope="adapters.write">
      <ActionButton
        label={`Delete version ${version}`}
        title={`Delete version ${version} of ${adapter}?`}
        confirm="Delete it"
        look="danger"
        action={remove}
        onConfirm={(close) => {
          remove.mutate(undefined, { onSuccess: close });
        }}
      >
        <p>Calls of it are refused from now on. It can be restored for some days.</p>
      </ActionButton>
    </May>
  );
}

/** Asked for only when somebody wants to see them. */
export function DeletedVersions({ adapter }: { adapter: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details
      className={styles.deleted}
      onToggle={(event) => {
        setOpen(event.currentTarget.open);
      }}
    >
      <summary>Deleted versions</summary>
      {isOpen && <Deleted adapter={adapter} />}
    </details>
  );
}

function Deleted({ adapter }: { adapter: string }) {
  const versions = useQuery(deletedVersionsQuery(adapter));
  return (
    <Loaded query={versions} label="Loading deleted versions" rows={1}>
      {(deleted) =>
        deleted.length === 0 ? (
          <p>There is none to restore.</p>
        ) : (
          <Items label="Deleted versions">
            {deleted.map((version) => (
              <DeletedVersion key={version.version} version={version} />
            ))}
          </Items>
        )
      }
    </Loaded>
  );
}

function DeletedVersion({ version: { adapter, version, deleted_at } }: { version: Version }) {
  const { restore } = useVersionRemoval(adapter, version);
  return (
    <Item
      title={<h3>Version {version}</h3>}
      note={
        deleted_at && (
          <>
            Deleted <Ago at={deleted_at} />.
          </>
        )
      }
      error={restore.error}
    >
      <May scope="adapters.write">
        <Button
          isSmall
          aria-label={`Restore version ${version}`}
          disabled={restore.isPending}
          onClick={() => {
            restore.mutate();
          }}
        >
          Restore
        </Button>
      </May>
    </Item>
  );
}
