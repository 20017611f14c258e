import { useQuery } from "@tanstack/react-query";
import { Navigate, Outlet, useLocation } from "react-router";
import { sessionQuery } from "@/features/session/api";
import { useSession } from "@/features/session/current";
import type { Session } from "@/shared/api/types";
import { LoadFailed } from "@/shared/ui/LoadFailed";
import { Notice } from "@/shared/ui/Notice";
import { Page } from "@/shared/ui/Page";
import { Skeleton } from "@/shared/ui/Skeleton";
import { Shell } from "./Shell";
import styles from "./Shell.module.css";

/** Every page below it has a session; without one it leads to the sign-in and back. */
export function RequireSession() {
  const session = useQuery(sessionQuery);
  const location = useLocation();

  if (session.isPending) {
    return (
      <main className={styles.main}>
        <Skeleton label="Looking up your session" />
      </main>
    );
  }
  if (session.isLoadingError) {
    return (
      <main className={styles.main}>
        <LoadFailed error={session.error} onRetry={session.refetch} />
      </main>
    );
  }
  if (!session.data) {
    const next = encodeURIComponent(location.pathname + location.search);
    return <Navigate to={next === "%2F" ? "/login" : `/login?next=${next}`} replace />;
  }
  return (
    <Shell session={session.data}>
      <Outlet context={session.data} />
    </Shell>
  );
}

/** Pages of one kind of session; the other kind reads whose they are. */
export function For({ kind }: { kind: Session["kind"] }) {
  const session = useSession();
  if (session.kind === kind) return <Outlet context={session} />;
  return (
    <Page title="Not yours to see" isNarrow>
      <Notice
        tone="info"
        title={`Only ${kind === "tenant" ? "tenants" : "operators"} have this page`}
      >
        {kind === "tenant"
          ? "You are among the operators. What is here belongs to a tenant: go to a tenant of yours, or sign in with a tenant's key."
          : "You are in a tenant. What all tenants share, only operators see."}
      </Notice>
    </Page>
  );
}
