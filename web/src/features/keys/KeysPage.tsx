import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { May } from "@/features/session/May";
import type { Key } from "@/shared/api/types";
import { Button, ButtonLink } from "@/shared/ui/Button";
import { EmptyState } from "@/shared/ui/EmptyState";
import { Loaded } from "@/shared/ui/Loaded";
import { Page } from "@/shared/ui/Page";
import { keysQuery } from "./api";
import { KeyTable } from "./KeyTable";
import { isOpen } from "./rules";

export function KeysPage() {
  return (
    <Page
      title="Keys"
      lead="Programs call Loraplex with a key. What a key may do are its scopes, and never more than you may."
      actions={
        <May scope="keys.write">
          <ButtonLink to="/keys/new" look="primary">
            New key
          </ButtonLink>
        </May>
      }
    >
      <Keys />
    </Page>
  );
}

function Keys() {
  const keys = useQuery(keysQuery);
  return (
    <Loaded query={keys} label="Loading the keys" rows={4}>
      {(all) => (all.length === 0 ? <NoKey /> : <SomeKeys keys={all} />)}
    </Loaded>
  );
}

/** What has ended is out of the way until somebody looks for it. */
function SomeKeys({ keys }: { keys: Key[] }) {
  const [search, setSearch] = useSearchParams();
  const isAll = search.has("ended");
  const open = keys.filter(isOpen);
  const ended = keys.length - open.length;
  const shown = isAll ? keys : open;
  return (
    <>
      {shown.length > 0 ? <KeyTable keys={shown} /> : <NoKey />}
      {ended > 0 && (
        <div>
          <Button
            aria-pressed={isAll}
            onClick={() => {
              setSearch(isAll ? {} : { ended: "" }, { replace: true });
            }}
          >
            {isAll ? "Hide" : "Show"} what has ended ({ended})
          </Button>
        </div>
      )}
    </>
  );
}

function NoKey() {
  return (
    <EmptyState
      title="No keys"
      action={
        <May scope="keys.write">
          <ButtonLink to="/keys/new" look="primary">
            Make a key
          </ButtonLink>
        </May>
      }
    >
      A key is what a program needs to call your models.
    </EmptyState>
  );
}
