import { useCaller } from "@/features/keys/api";
import { EVERY_MODEL } from "@/features/keys/rules";
import { inOrder } from "@/features/keys/scopes";
import { formatInstant } from "@/shared/format";
import { Fact, Facts } from "@/shared/ui/Facts";
import { Loaded } from "@/shared/ui/Loaded";
import { Card } from "@/shared/ui/Page";

/** A session that was opened with a key: what the key may. */
export function OwnKeyCard() {
  const caller = useCaller();
  return (
    <Card title="Signed in with a key">
      <Loaded query={caller} label="Looking up the key" rows={2}>
        {({ label, scopes, models, expires_at }) => (
          <Facts>
            <Fact name="Key">
              <code>{label}</code>
            </Fact>
            <Fact name="Ends">{expires_at ? formatInstant(expires_at) : "never"}</Fact>
            <Fact name="Models">{models.includes(EVERY_MODEL) ? "all" : models.join(", ")}</Fact>
            <Fact name="Scopes">{inOrder(scopes).join(", ")}</Fact>
          </Facts>
        )}
      </Loaded>
    </Card>
  );
}
