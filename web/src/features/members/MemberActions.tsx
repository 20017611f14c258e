import { useSession } from "@/features/session/current";
import type { Member } from "@/shared/api/types";
import { ActionButton } from "@/shared/ui/ActionButton";
import { useMemberActions } from "./api";
import styles from "./MemberActions.module.css";
import { rolesWithin } from "./roles";

/** Another role, or an end; of those who may no more than whoever looks. */
export function MemberActions({ member }: { member: Member }) {
  const { role: own } = useSession();
  const { change, remove } = useMemberActions(member.id);
  const roles = rolesWithin(own);
  if (!roles.includes(member.role)) return member.role;
  return (
    <span className={styles.actions}>
      <select
        aria-label={`Role of ${member.email}`}
        className={styles.select}
        value={change.isPending ? change.variables : member.role}
        disabled={change.isPending}
        onChange={({ target }) => {
          const role = roles.find((one) => one === target.value);
          if (role) change.mutate(role);
        }}
      >
        {roles.map((role) => (
          <option key={role} value={role}>
            {role}
          </option>
        ))}
      </select>
      <ActionButton
        label="Remove"
        title={`Remove ${member.email}?`}
        confirm="Remove them"
        look="danger"
        action={remove}
        onConfirm={(close) => {
          remove.mutate(undefined, { onSuccess: close });
        }}
      >
        <p>Their sessions here and the keys that they made with this membership end at once.</p>
      </ActionButton>
      {change.error && (
        <span className={styles.refused} role="alert">
          {change.error.message}
        </span>
      )}
    </span>
  );
}
