import { May } from "@/features/session/May";
import type { Invitation } from "@/shared/api/types";
import { formatInstant } from "@/shared/format";
import { ActionButton } from "@/shared/ui/ActionButton";
import { Loaded } from "@/shared/ui/Loaded";
import { Card } from "@/shared/ui/Page";
import { useInvitations, useWithdraw } from "./api";
import styles from "./InvitationList.module.css";

/** Links that still work. Nothing is said where there is none. */
export function InvitationList() {
  const invitations = useInvitations();
  if (invitations.data?.length === 0) return null;
  return (
    <Card title="Open invitations">
      <Loaded query={invitations} label="Loading invitations" rows={1}>
        {(all) => (
          <ul className={styles.invitations} aria-label="Open invitations">
            {all.map((one) => (
              <Item key={one.id} invitation={one} />
            ))}
          </ul>
        )}
      </Loaded>
    </Card>
  );
}

function Item({
  invitation: { id, email, role, invited_by, expires_at },
}: {
  invitation: Invitation;
}) {
  const withdraw = useWithdraw(id);
  return (
    <li>
      <div className={styles.words}>
        <strong>{email}</strong> {role && `as ${role}`}
        <p className={styles.note}>
          Invited by {invited_by}; the link works until {formatInstant(expires_at)}.
        </p>
      </div>
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
    </li>
  );
}
