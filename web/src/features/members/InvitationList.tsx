import { May } from "@/features/session/May";
import type { Invitation } from "@/shared/api/types";
import { formatInstant } from "@/shared/format";
import { ActionButton } from "@/shared/ui/ActionButton";
import { Item, Items } from "@/shared/ui/Items";
import { Loaded } from "@/shared/ui/Loaded";
import { Card } from "@/shared/ui/Page";
import { useInvitations, useWithdraw } from "./api";

/** Links that still work. Nothing is said where there is none. */
export function InvitationList() {
  const invitations = useInvitations();
  if (invitations.data?.length === 0) return null;
  return (
    <Card title="Open invitations">
      <Loaded query={invitations} label="Loading invitations" rows={1}>
        {(all) => (
          <Items label="Open invitations">
            {all.map((one) => (
              <InvitationItem key={one.id} invitation={one} />
            ))}
          </Items>
        )}
      </Loaded>
    </Card>
  );
}

function InvitationItem({ invitation }: { invitation: Invitation }) {
  const { id, email, role, invited_by, expires_at } = invitation;
  const withdraw = useWithdraw(id);
  return (
    <Item
      title={
        <>
          <strong>{email}</strong> {role && `as ${role}`}
        </>
      }
      note={`Invited by ${invited_by}; the link works until ${formatInstant(expires_at)}.`}
    >
      <May scope="members.write">
        <ActionButton
          label="Withdraw"
          title={`Withdraw the invitation of ${email}?`}
          confirm="Withdraw it"
          action={withdraw}
          onConfirm={(close) => {
            withdraw.mutate(undefined, { onSuccess: close });
          }}
        >
          <p>The link works no more from then on.</p>
        </ActionButton>
      </May>
    </Item>
  );
}
