import { Link, useSearchParams } from "react-router";
import { MayOperate } from "@/features/session/May";
import type { Tenant } from "@/shared/api/types";
import { Ago } from "@/shared/ui/Ago";
import { EmptyState } from "@/shared/ui/EmptyState";
import { Filter } from "@/shared/ui/Filter";
import { Loaded } from "@/shared/ui/Loaded";
import { Page } from "@/shared/ui/Page";
import { Table, type Column } from "@/shared/ui/Table";
import { useTenants } from "./api";
import { NewTenant } from "./NewTenant";
import { TenantState } from "./TenantState";

export function TenantsPage() {
  const tenants = useTenants();
  return (
    <Page
      title="Tenants"
      lead="Each has its own adapters, keys, people, limits and bill, and sees nothing of another."
      actions={
        <MayOperate>
          <NewTenant />
        </MayOperate>
      }
    >
      <Loaded query={tenants} label="Loading tenants" rows={4}>
        {(all) =>
          all.length === 0 ? (
            <EmptyState title="No tenants">
              A tenant is whoever uploads adapters and calls models.
            </EmptyState>
          ) : (
            <Found tenants={all} />
          )
        }
      </Loaded>
    </Page>
  );
}

const COLUMNS: Column<Tenant>[] = [
  {
    name: "Name",
    cell: ({ name }) => <Link to={`/admin/tenants/${encodeURIComponent(name)}`}>{name}</Link>,
  },
  { name: "State", cell: ({ state }) => <TenantState state={state} /> },
  { name: "Made", cell: ({ created_at }) => <Ago at={created_at} /> },
];

function Found({ tenants }: { tenants: Tenant[] }) {
  const [search, setSearch] = useSearchParams(); // the filter lives in the URL
  const wanted = search.get("q") ?? "";
  const part = wanted.trim().toLowerCase();
  const found = tenants.filter(({ name }) => name.toLowerCase().includes(part));
  return (
    <>
      <Filter
        value={wanted}
        onChange={(q) => {
          setSearch(q === "" ? {} : { q }, { replace: true });
        }}
      />
      {found.length === 0 ? (
        <EmptyState title="No tenant matches">
          None of {tenants.length} has “{wanted}” in its name.
        </EmptyState>
      ) : (
        <Table caption="Tenants" columns={COLUMNS} rows={found} keyOf={({ id }) => id} />
      )}
    </>
  );
}
