import { useSession } from "@/features/session/current";
import type { Session } from "@/shared/api/types";
import { Fact, Facts } from "@/shared/ui/Facts";
import { Card, Page } from "@/shared/ui/Page";
import { OwnKeyCard } from "./OwnKeyCard";
import { PasswordCard } from "./PasswordCard";
import { SessionsCard } from "./SessionsCard";

/** Whoever is signed in, themselves; a key has neither a password nor other browsers. */
export function AccountPage() {
  const session = useSession();
  const { person, kind } = session;
  return (
    <Page title="Account" isNarrow>
      {person ? (
        <>
          <Profile session={session} person={person} />
          {person.has_password && <PasswordCard email={person.email} />}
          <SessionsCard />
        </>
      ) : kind === "tenant" ? (
        <OwnKeyCard />
      ) : (
        <Card title="An operator’s key">
          <p>You are signed in with a key of the role {session.role}.</p>
        </Card>
      )}
    </Page>
  );
}

type ProfileProps = { session: Session; person: NonNullable<Session["person"]> };

function Profile({ session, person }: ProfileProps) {
  return (
    <Card title={person.display_name || person.email}>
      <Facts>
        <Fact name="E-mail address">{person.email}</Fact>
        {person.operator_role && <Fact name="Among the operators">{person.operator_role}</Fact>}
        {session.places.map(({ tenant, role, state }) => (
          <Fact key={tenant} name={tenant}>
            {role}
            {state !== "active" && ` (${state})`}
          </Fact>
        ))}
        {!person.has_password && <Fact name="Signs in with">the identity provider</Fact>}
      </Facts>
    </Card>
  );
}
