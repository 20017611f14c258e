import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "react-router";
import { May } from "@/features/session/May";
import type { Adapter } from "@/shared/api/types";
import { Ago } from "@/shared/ui/Ago";
import { Button } from "@/shared/ui/Button";
import { EmptyState } from "@/shared/ui/EmptyState";
import { Item, Items } from "@/shared/ui/Items";
import { Loaded } from "@/shared/ui/Loaded";
import { Card } from "@/shared/ui/Page";
import { deletedAdaptersQuery, useAdapterRemoval } from "./removal";

/** What was deleted and is not purged yet. */
export function DeletedAdapters() {
  const deleted = useQuery(deletedAdaptersQuery);
  return (
    <Loaded query={deleted} label="Loading what was deleted">
      {(adapters) =>
        adapters.length === 0 ? (
          <EmptyState title="Nothing to restore">
            A deleted adapter is here for some days, until it is purged.
          </EmptyState>
        ) : (
          <Card title="Deleted">
            <Items label="Deleted adapters">
              {adapters.map((adapter) => (
                <DeletedAdapter key={adapter.name} adapter={adapter} />
              ))}
            </Items>
          </Card>
        )
      }
    </Loaded>
  );
}

function DeletedAdapter({ adapter: { name, deleted_at } }: { adapter: Adapter }) {
  const { restore } = useAdapterRemoval(name);
  const navigate = useNavigate();
  return (
    <Item
      title={<strong>{name}</strong>}
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
          aria-label={`Restore ${name}`}
          disabled={restore.isPending}
          onClick={() => {
            restore.mutate(undefined, {
              onSuccess: () => void navigate(`/adapters/${encodeURIComponent(name)}`),
            });
          }}
        >
          Restore
        </Button>
      </May>
    </Item>
  );
}
