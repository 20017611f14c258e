import type { OwnSession } from "@/shared/api/types";
import { formatInstant } from "@/shared/format";
import { ActionButton } from "@/shared/ui/ActionButton";
import { Ago } from "@/shared/ui/Ago";
import { Badge } from "@/shared/ui/Badge";
import { Button } from "@/shared/ui/Button";
import { Items, Item } from "@/shared/ui/Items";
import { Loaded } from "@/shared/ui/Loaded";
import { Card } from "@/shared/ui/Page";
import { useEndOtherSessions, useEndSession, useOwnSessions } from "./api";
import { browserName } from "./browsers";

/** Where the person is signed in, and how that ends. */
export function SessionsCard() {
  const sessions = useOwnSessions();
  const endOthers = useEndOtherSessions();
  const hasOthers = sessions.data?.some(({ is_current }) => !is_current) ?? false;
  return (
    <Card
      title="Where you are signed in"
      actions={
        hasOthers && (
          <ActionButton
            label="Sign out everywhere else"
            title="Sign out everywhere else?"
            confirm="Sign out the others"
            action={endOthers}
            onConfirm={(close) => {
              endOthers.mutate(undefined, { onSuccess: close });
            }}
          >
            <p>Every browser but this one has to sign in again.</p>
          </ActionButton>
        )
      }
    >
      <Loaded query={sessions} label="Loading your sessions" rows={2}>
        {(all) => (
          <Items label="Sessions">
            {all.map((one) => (
              <SessionItem key={one.id} session={one} />
            ))}
          </Items>
        )}
      </Loaded>
    </Card>
  );
}

function SessionItem({ session }: { session: OwnSession }) {
  const end = useEndSession(session.id);
  const name = browserName(session.user_agent);
  return (
    <Item
      title={
        <>
          <strong title={session.user_agent}>{name}</strong>{" "}
          {session.is_current && <Badge tone="good">this one</Badge>}
        </>
      }
      note={
        <>
          From {session.address}
          {session.tenant && `, in ${session.tenant}`}. Signed in <Ago at={session.created_at} />,
          until {formatInstant(session.expires_at)}.
        </>
      }
      error={end.error}
    >
      {!session.is_current && (
        <Button
          isSmall
          aria-label={`Sign out ${name}`}
          disabled={end.isPending}
          onClick={() => {
            end.mutate();
          }}
        >
          Sign out
        </Button>
      )}
    </Item>
  );
}
