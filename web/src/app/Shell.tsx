import type { ReactNode } from "react";
import { Link, NavLink, useNavigate } from "react-router";
import { useChoosePlace, useSignOut } from "@/features/session/api";
import type { Session } from "@/shared/api/types";
import { Button } from "@/shared/ui/Button";
import { Logo } from "@/shared/ui/Logo";
import { classes } from "@/shared/ui/classes";
import styles from "./Shell.module.css";
import { tabsOf } from "./tabs";

export function Shell({ session, children }: { session: Session; children: ReactNode }) {
  return (
    <div className={styles.shell}>
      <a className={styles.skip} href="#content">
        Skip to content
      </a>
      <header className={styles.header}>
        <div className={styles.bar}>
          <Link to="/" className={styles.home}>
            <Logo />
          </Link>
          <nav aria-label="Pages" className={styles.nav}>
            {tabsOf(session).map(({ path, name }) => (
              <NavLink key={path} to={path} className={classes(styles.tab)}>
                {name}
              </NavLink>
            ))}
          </nav>
          <Account session={session} />
        </div>
      </header>
      <main id="content" className={styles.main} tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

/** Where the session is; somebody who could be elsewhere goes there from here. */
function PlaceName({ session }: { session: Session }) {
  const choose = useChoosePlace();
  const navigate = useNavigate();
  const isOperator = session.person?.operator_role != null;
  if (session.places.length + Number(isOperator) < 2) {
    return <span className={styles.tenant}>{session.tenant ?? "Operator"}</span>;
  }
  return (
    <>
      <select
        aria-label="Tenant"
        className={styles.places}
        value={session.tenant ?? ""}
        disabled={choose.isPending}
        onChange={(event) => {
          choose.mutate(event.target.value || null, { onSuccess: () => void navigate("/") });
        }}
      >
        {isOperator && <option value="">Operators</option>}
        {session.places.map(({ tenant, role }) => (
          <option key={tenant} value={tenant}>
            {tenant} ({role})
          </option>
        ))}
      </select>
      {choose.error && (
        <span className={styles.refused} role="alert">
          {choose.error.message}
        </span>
      )}
    </>
  );
}

function Account({ session }: { session: Session }) {
  const signOut = useSignOut();
  return (
    <div className={styles.account}>
      <div className={styles.who}>
        <PlaceName session={session} />
        <Link to="/account" className={styles.person}>
          {session.person?.email ?? "Account"}
        </Link>
      </div>
      <Button
        isSmall
        disabled={signOut.isPending}
        onClick={() => {
          signOut.mutate();
        }}
      >
        Sign out
      </Button>
      {signOut.isError && (
        <span className={styles.refused} role="alert">
          Could not sign out. Try again.
        </span>
      )}
    </div>
  );
}
