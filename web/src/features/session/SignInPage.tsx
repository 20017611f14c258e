import { useQuery } from "@tanstack/react-query";
import { useState, type SubmitEvent } from "react";
import { Navigate, useSearchParams } from "react-router";
import { ApiError } from "@/shared/api/problem";
import { Button } from "@/shared/ui/Button";
import { Field } from "@/shared/ui/Field";
import { Logo } from "@/shared/ui/Logo";
import { sessionQuery, useSignIn } from "./api";
import { nextPath } from "./next";
import styles from "./SignInPage.module.css";

export function SignInPage() {
  const [search] = useSearchParams();
  const session = useQuery(sessionQuery);

  if (session.data) return <Navigate to={nextPath(search, session.data.kind)} replace />;
  return (
    <main className={styles.page}>
      <title>Sign in · Loraplex</title>
      <div className={styles.card}>
        <Logo />
        <div>
          <h1>Sign in</h1>
          <p className={styles.lead}>Use the API key of your tenant, or an operator&rsquo;s key.</p>
        </div>
        <SignInForm />
        <p className={styles.note}>
          The key is exchanged for a session in a cookie that scripts cannot read. This page does
          not keep it.
        </p>
      </div>
    </main>
  );
}

function SignInForm() {
  const signIn = useSignIn();
  const [key, setKey] = useState("");
  const [isMissing, setMissing] = useState(false);

  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const trimmed = key.trim();
    setMissing(trimmed === "");
    if (trimmed !== "") signIn.mutate(trimmed);
  };
  const error = isMissing ? "Paste a key first." : signIn.error && explain(signIn.error);
  return (
    <form className={styles.form} onSubmit={submit} noValidate>
      <Field
        label="API key"
        hint={
          <>
            Begins with <code>lpx_</code> or <code>lpxadmin_</code>.
          </>
        }
        error={error}
      >
        {(ids) => (
          <input
            {...ids}
            type="password"
            name="api_key"
            autoComplete="current-password"
            spellCheck={false}
            value={key}
            onChange={(event) => {
              setKey(event.target.value);
            }}
          />
        )}
      </Field>
      <Button look="primary" type="submit" disabled={signIn.isPending}>
        {signIn.isPending ? "Signing in…" : "Sign in"}
      </Button>
    </form>
  );
}

function explain(error: Error): string {
  if (!(error instanceof ApiError)) return error.message;
  if (error.failure === "signed-out" || error.code === "invalid_api_key") {
    return "Loraplex does not know this key. Check that it was copied whole and has not been revoked.";
  }
  if (error.failure === "limited") {
    const wait = error.retryAfterSeconds;
    const when = wait === null ? "in a minute" : `in ${Math.ceil(wait)} seconds`;
    return `Too many failed attempts from your address. Try again ${when}.`;
  }
  return error.message;
}
