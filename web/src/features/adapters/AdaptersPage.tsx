import { useSearchParams } from "react-router";
import { May } from "@/features/session/May";
import { Button, ButtonLink } from "@/shared/ui/Button";
import { EmptyState } from "@/shared/ui/EmptyState";
import { Filter } from "@/shared/ui/Filter";
import { LoadFailed, Stale } from "@/shared/ui/LoadFailed";
import { Page } from "@/shared/ui/Page";
import { Skeleton } from "@/shared/ui/Skeleton";
import { AdapterTable } from "./AdapterTable";
import { useAdapters } from "./api";
import { DeletedAdapters } from "./DeletedAdapters";

export function AdaptersPage() {
  const [search] = useSearchParams();
  const isDeleted = search.has("deleted");
  return (
    <Page
      title="Adapters"
      lead="Your fine-tunes of the base model. Each is called by name, and every upload is a version that never changes."
      actions={
        <May scope="adapters.write">
          <ButtonLink to="/upload" look="primary">
            Upload an adapter
          </ButtonLink>
        </May>
      }
    >
      {isDeleted ? <DeletedAdapters /> : <Adapters />}
      <div>
        <ButtonLink to={isDeleted ? "/adapters" : "/adapters?deleted"} look="quiet" isSmall>
          {isDeleted ? "Back to all adapters" : "Deleted adapters"}
        </ButtonLink>
      </div>
    </Page>
  );
}

function Adapters() {
  const [search, setSearch] = useSearchParams(); // the filter lives in the URL
  const adapters = useAdapters();
  const wanted = search.get("q") ?? "";
  const filter = (q: string) => {
    setSearch(q === "" ? {} : { q }, { replace: true });
  };

  if (adapters.isPending) return <Skeleton label="Loading your adapters" rows={4} />;
  if (adapters.isLoadingError) {
    return <LoadFailed error={adapters.error} onRetry={adapters.refetch} />;
  }
  if (adapters.data.length === 0) return <FirstAdapter />;

  const part = wanted.trim().toLowerCase();
  const found = adapters.data.filter(({ name }) => name.toLowerCase().includes(part));
  return (
    <>
      {adapters.isRefetchError && <Stale onRetry={adapters.refetch} />}
      <Filter value={wanted} onChange={filter} />
      {found.length === 0 ? (
        <EmptyState
          title="No adapter matches"
          action={
            <Button
              onClick={() => {
                filter("");
              }}
            >
              Show all
            </Button>
          }
        >
          None of your {adapters.data.length} adapters has “{wanted}” in its name.
        </EmptyState>
      ) : (
        <AdapterTable adapters={found} />
      )}
    </>
  );
}

function FirstAdapter() {
  return (
    <EmptyState
      title="No adapters yet"
      action={
        <May scope="adapters.write">
          <ButtonLink to="/upload" look="primary">
            Upload your first
          </ButtonLink>
        </May>
      }
    >
      Upload the folder that PEFT&rsquo;s <code>save_pretrained</code> wrote. A moment after it is
      validated, you can call it through the API and chat with it here.
    </EmptyState>
  );
}
