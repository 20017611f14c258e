import { useQuery } from "@tanstack/react-query";
import { useSession } from "@/features/session/current";
import { May } from "@/features/session/May";
import { EmptyState } from "@/shared/ui/EmptyState";
import { Loaded } from "@/shared/ui/Loaded";
import { Page } from "@/shared/ui/Page";
import { membersQuery, useInvite } from "./api";
import { InvitationList } from "./InvitationList";
import { InviteCard } from "./InviteCard";
import { MemberTable } from "./MemberTable";
import { rolesWithin } from "./roles";

export function MembersPage() {
  const members = useQuery(membersQuery);
  return (
    <Page
      title="Members"
      lead="People who may sign in to this tenant. A role says what each of them may."
    >
      <Loaded query={members} label="Loading the members" rows={4}>
        {(all) => (all.length === 0 ? <NoMember /> : <MemberTable members={all} />)}
      </Loaded>
      <May scope="members.write">
        <Invite />
      </May>
      <InvitationList />
    </Page>
  );
}

function NoMember() {
  return (
    <EmptyState title="No members">
      So far only keys reach this tenant. Whoever is invited signs in as themselves.
    </EmptyState>
  );
}

function Invite() {
  const { role } = useSession();
  const invite = useInvite();
  const roles = rolesWithin(role);
  const start = roles.includes("developer") ? "developer" : roles[0];
  return start && <InviteCard roles={roles} start={start} invite={invite} />;
}
