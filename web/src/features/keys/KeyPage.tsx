import { Link, useParams } from "react-router";
import type { CallerKey, Key } from "@/shared/api/types";
import { formatInstant } from "@/shared/format";
import { Ago } from "@/shared/ui/Ago";
import { Fact, Facts } from "@/shared/ui/Facts";
import { Loaded } from "@/shared/ui/Loaded";
import { Card, Page } from "@/shared/ui/Page";
import { useCaller, useKey } from "./api";
import { KeyChanges } from "./KeyChanges";
import { KeyState } from "./KeyState";
import { RotateCard } from "./RotateCard";
import { EVERY_MODEL, isOpen, mayManage } from "./rules";
import { inOrder } from "./scopes";

export function KeyPage() {
  const id = useParams().key ?? "";
  const key = useKey(id);
  const caller = useCaller();
  return (
    <Page title={key.data?.name ?? "Key"} lead={<Link to="/keys">All keys</Link>} isNarrow>
      <Loaded query={key} label="Loading the key" rows={4}>
        {(found) => (
          <>
            <About apiKey={found} />
            {caller.data && <Actions key={id} caller={caller.data} apiKey={found} />}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function About({ apiKey }: { apiKey: Key }) {
  const { expires_at: ends, revoked_at: revoked, last_used_at: used, replaced_by } = apiKey;
  return (
    <Card title="What it is" actions={<KeyState {...apiKey} />}>
      <Facts>
        <Fact name="Text">
          <code>{apiKey.label}</code>
        </Fact>
        <Fact name="Made">
          <Ago at={apiKey.created_at} />
        </Fact>
        <Fact name="Last used">{used ? <Ago at={used} /> : "never"}</Fact>
        <Fact name={revoked ? "Revoked" : "Ends"}>
          {revoked ? formatInstant(revoked) : ends ? formatInstant(ends) : "never"}
        </Fact>
        <Fact name="Models">
          {apiKey.models.includes(EVERY_MODEL) ? "all" : apiKey.models.join(", ")}
        </Fact>
        <Fact name="Scopes">{inOrder(apiKey.scopes).join(", ")}</Fact>
        {replaced_by && (
          <Fact name="Rotated">
            <Link to={`/keys/${replaced_by}`}>Its successor</Link>
          </Fact>
        )}
      </Facts>
    </Card>
  );
}

function Actions({ caller, apiKey }: { caller: CallerKey; apiKey: Key }) {
  if (!mayManage(caller, apiKey)) return null;
  return (
    <>
      <RotateCard caller={caller} apiKey={apiKey} />
      {isOpen(apiKey) && <KeyChanges apiKey={apiKey} />}
    </>
  );
}
