import { useNavigate } from "react-router";
import { May } from "@/features/session/May";
import { formatInstant } from "@/shared/format";
import { ActionButton } from "@/shared/ui/ActionButton";
import { Button } from "@/shared/ui/Button";
import { Item, Items } from "@/shared/ui/Items";
import { Loaded } from "@/shared/ui/Loaded";
import { Card } from "@/shared/ui/Page";
import { usePin, useSetPin } from "./pins";
import { useAdapterRemoval } from "./removal";

/** Whether the adapter stays near, and whether it stays at all. */
export function KeepCard({ adapter }: { adapter: string }) {
  return (
    <Card title="Keep it">
      <Items label="Keep it">
        <Pin adapter={adapter} />
        <May scope="adapters.write">
          <Removal adapter={adapter} />
        </May>
      </Items>
    </Card>
  );
}

function Pin({ adapter }: { adapter: string }) {
  const pin = usePin(adapter);
  const set = useSetPin(adapter);
  return (
    <Item
      title={<h3>Pin</h3>}
      note="What a pinned adapter’s bare name means stays in the workers’ memory, whatever room others need."
      error={set.error}
    >
      <Loaded query={pin} label="Looking up the pin" rows={1}>
        {(since) => (
          <>
            {since !== null && <span>Pinned since {formatInstant(since)}</span>}
            <May scope="adapters.write">
              <Button
                isSmall
                disabled={set.isPending}
                onClick={() => {
                  set.mutate(since === null);
                }}
              >
                {since === null ? "Pin" : "Unpin"}
              </Button>
            </May>
          </>
        )}
      </Loaded>
    </Item>
  );
}

function Removal({ adapter }: { adapter: string }) {
  const { remove } = useAdapterRemoval(adapter);
  const navigate = useNavigate();
  return (
    <Item
      title={<h3>Delete</h3>}
      note="Out of service at once, and restored if you say so in time."
    >
      <ActionButton
        label="Delete"
        title={`Delete ${adapter}?`}
        confirm="Delete it"
        look="danger"
        action={remove}
        onConfirm={() => {
          remove.mutate(undefined, { onSuccess: () => void navigate("/adapters?deleted") });
        }}
      >
        <p>
          Calls of it, of its versions and of its aliases are refused from now on. It can be
          restored for some days, and keeps its name until then.
        </p>
      </ActionButton>
    </Item>
  );
}
