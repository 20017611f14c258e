import { useQuery } from "@tanstack/react-query";
import { useState, type SubmitEvent } from "react";
import { Navigate, useSearchParams } from "react-router";
import { Button } from "@/shared/ui/Button";
import { Field } from "@/shared/ui/Field";
import { Logo } from "@/shared/ui/Logo";
import { Notice } from "@/shared/ui/Notice";
import { methodsQuery, sessionQuery, useBeginOidc, useSignIn } from "./api";
import { explain, explainCode } from "./explain";
import { localPath, nextPath } from "./next";
import styles from "./SignInPage.module.css";

export function SignInPage() {
  const [search] = useSearchParams();
  const session = useQuery(sessionQuery);
  const refused = search.get("refused");

  if (session.data) return <Navigate to={nextPath(search, session.data.kind)} replace />;
  return (
    <main className={styles.page}>
      <title>Sign in · Loraplex</title>
      <div className={styles.card}>
        <Logo />
        <h1>Sign in</h1>
        {refused !== null && (
          <Notice tone="bad" title="That did not work">
            {explainCode(refused)}
          </Notice>
        )}
        <ProviderButton next={localPath(search)} />
        <PasswordForm />
        <div className={styles.other}>
          <KeyForm />
          <p className={styles.note}>
            A key is exchanged for a session in a cookie that scripts cannot read. This page does
            not keep it.
          </p>
        </div>
      </div>
    </main>
  );
}

/** The way through the identity provider, where there is one. */
export function ProviderButton({ next = "/", invitation }: { next?: string; invitation?: string }) {
  const methods = useQuery(methodsQuery);
  const begin = useBeginOidc();
  const name = methods.data?.identity_provider;
  if (!name) return null;
  return (
    <div className={styles.form}>
      <Button
        disabled={begin.isPending}
        onClick={() => {
          begin.mutate(invitation === undefined ? { next } : { next, invitation });
        }}
      >
        Continue with {name}
      </Button>
      {begin.error && <p role="alert">{explain(begin.error)}</p>}
    </div>
  );
}

function PasswordForm() {
  const signIn = useSignIn();
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [isMissing, setMissing] = useState(false);

  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const isComplete = email.trim() !== "" && password !== "";
    setMissing(!isComplete);
    if (isComplete) signIn.mutate({ email: email.trim(), password });
  };
  const error = isMissing
    ? "Give your e-mail address and your password."
    : signIn.error && explain(signIn.error);
  return (
    <form className={styles.form} onSubmit={submit} noValidate>
      <Field label="E-mail address">
        {(ids) => (
          <input
            {...ids}
            type="email"
            name="email"
            autoComplete="username"
            value={email}
            onChange={(event) => {
              setEmail(event.target.value);
            }}
          />
        )}
      </Field>
      <Field label="Password" error={error}>
        {(ids) => (
          <input
            {...ids}
            type="password"
            name="password"
            autoComplete="current-password"
            value={password}
            onChange={(event) => {
              setPassword(event.target.value);
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

function KeyForm() {
  const signIn = useSignIn();
  const [key, setKey] = useState("");
  const [isMissing, setMissing] = useState(false);

  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    const trimmed = key.trim();
    setMissing(trimmed === "");
    if (trimmed !== "") signIn.mutate({ api_key: trimmed });
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
            autoComplete="off"
            spellCheck={false}
            value={key}
            onChange={(event) => {
              setKey(event.target.value);
            }}
          />
        )}
      </Field>
      <Button type="submit" disabled={signIn.isPending}>
        {signIn.isPending ? "Signing in…" : "Sign in with the key"}
      </Button>
    </form>
  );
}
