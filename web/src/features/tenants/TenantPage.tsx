import { Link, useParams } from "react-router";
import { LimitsView } from "@/features/limits/LimitsView";
import { InviteCard } from "@/features/members/InviteCard";
import { ROLES } from "@/features/members/roles";
import { MayOperate } from "@/features/session/May";
import { UsageTotals } from "@/features/usage/UsageTotals";
import type { TenantDetails } from "@/shared/api/types";
import { formatInstant } from "@/shared/format";
import { Fact, Facts } from "@/shared/ui/Facts";
import { Loaded } from "@/shared/ui/Loaded";
import { Card, Page } from "@/shared/ui/Page";
import { useInviteTo, useTenant, useTenantLimits, useTenantUsage } from "./api";
import { Suspension } from "./Suspension";
import { TenantState } from "./TenantState";

export function TenantPage() {
  const name = useParams().tenant ?? "";
  const tenant = useTenant(name);
  return (
    <Page title={name} lead={<Link to="/admin/tenants">All tenants</Link>}>
      <Loaded query={tenant} label={`Loading ${name}`} rows={4}>
        {(found) => (
          <>
            <About tenant={found} />
            <UsageAndLimits name={name} />
            <MayOperate>
              <Invite name={name} />
            </MayOperate>
          </>
        )}
      </Loaded>
    </Page>
  );
}

function About({ tenant }: { tenant: TenantDetails }) {
  const { deletion } = tenant;
  return (
    <Card title={tenant.display_name || tenant.name} actions={<TenantState state={tenant.state} />}>
      <Facts>
        <Fact name="Made">{formatInstant(tenant.created_at)}</Fact>
        {tenant.state_changed_at && (
          <Fact name={`${tenant.state} since`}>{formatInstant(tenant.state_changed_at)}</Fact>
        )}
        {tenant.state_reason && <Fact name="Reason">{tenant.state_reason}</Fact>}
        {deletion && (
          <Fact name="Deletion">
            asked for by {deletion.requested_by},{" "}
            {deletion.finished_at ? `done ${formatInstant(deletion.finished_at)}` : "under way"}
          </Fact>
        )}
      </Facts>
      <MayOperate>
        <Suspension tenant={tenant} />
      </MayOperate>
    </Card>
  );
}

function UsageAndLimits({ name }: { name: string }) {
  const usage = useTenantUsage(name);
  const limits = useTenantLimits(name);
  return (
    <>
      <Card title="The last 31 days">
        <Loaded query={usage} label="Adding up its usage" rows={1}>
          {({ total, currency }) => <UsageTotals total={total} currency={currency} />}
        </Loaded>
      </Card>
      <Card title="Limits and budgets">
        <Loaded query={limits} label="Loading its limits" rows={2}>
          {(all) => (
            <LimitsView
              limits={all}
              currency={usage.data?.currency ?? null}
              nameOf={({ id }) => id ?? ""}
            />
          )}
        </Loaded>
      </Card>
    </>
  );
}

function Invite({ name }: { name: string }) {
  const invite = useInviteTo(name);
  return <InviteCard roles={ROLES.map(([role]) => role)} start="owner" invite={invite} />;
}
