import { useSession } from "@/features/session/current";
import type { Member } from "@/shared/api/types";
import { Ago } from "@/shared/ui/Ago";
import { Badge } from "@/shared/ui/Badge";
import { Table, type Column } from "@/shared/ui/Table";
import { MemberActions } from "./MemberActions";
import styles from "./MemberTable.module.css";

const SOURCES: Record<Member["source"], string> = {
  invitation: "an invitation",
  operator: "the operators",
  identity_provider: "the identity provider",
};

const KNOWN: Column<Member>[] = [
  {
    name: "Person",
    cell: ({ email, display_name, is_disabled }) => (
      <span className={styles.person}>
        {display_name || email}
        {display_name && <small>{email}</small>}
        {is_disabled && <Badge tone="warn">disabled</Badge>}
      </span>
    ),
  },
  { name: "Role given by", cell: ({ source }) => SOURCES[source] },
  {
    name: "Last signed in",
    cell: ({ last_signed_in_at: at }) => (at ? <Ago at={at} /> : "never"),
  },
  { name: "Member since", cell: ({ created_at }) => <Ago at={created_at} /> },
];

export function MemberTable({ members }: { members: Member[] }) {
  const mayChange = useSession().scopes.includes("members.write");
  const role: Column<Member> = {
    name: "Role",
    cell: (member) => (mayChange ? <MemberActions member={member} /> : member.role),
  };
  return (
    <Table
      caption="Members of the tenant"
      columns={[...KNOWN, role]}
      rows={members}
      keyOf={({ id }) => id}
    />
  );
}
