import { EmptyState } from "@/shared/ui/EmptyState";
import { LoadFailed, Stale } from "@/shared/ui/LoadFailed";
import { Page } from "@/shared/ui/Page";
import { Skeleton } from "@/shared/ui/Skeleton";
import { useWorkers } from "./api";
import { WorkerCard } from "./WorkerCard";
import styles from "./WorkersPage.module.css";

export function WorkersPage() {
  return (
    <Page
      title="Workers"
      lead="Each holds one copy of the base model and one pool of pages, shared by KV, cached prefixes and adapters. Refreshed every two seconds."
    >
      <Workers />
    </Page>
  );
}

function Workers() {
  const workers = useWorkers();

  if (workers.isPending) return <Skeleton label="Loading workers" />;
  if (workers.isLoadingError) return <LoadFailed error={workers.error} onRetry={workers.refetch} />;
  if (workers.data.workers.length === 0) {
    return (
      <EmptyState title="No workers">
        None is registered, so every request is answered with 503. Workers that{" "}
        <code>loraplex serve</code> starts appear here once they have loaded the base model.
      </EmptyState>
    );
  }
  return (
    <>
      {workers.isRefetchError && <Stale onRetry={workers.refetch} />}
      <ul className={styles.workers}>
        {workers.data.workers.map(({ worker, rates }) => (
          <li key={worker.id}>
            <WorkerCard worker={worker} rates={rates} />
          </li>
        ))}
      </ul>
    </>
  );
}
