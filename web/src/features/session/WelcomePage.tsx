import { useQuery } from "@tanstack/react-query";
import { useState, type SubmitEvent } from "react";
import { Link, useLocation, useNavigate } from "react-router";
import type { Offer } from "@/shared/api/types";
import { Button } from "@/shared/ui/Button";
import { Field } from "@/shared/ui/Field";
import { Logo } from "@/shared/ui/Logo";
import { Notice } from "@/shared/ui/Notice";
import { Skeleton } from "@/shared/ui/Skeleton";
import { offerQuery, sessionQuery, useAccept } from "./api";
import { explain } from "./explain";
import { ProviderButton } from "./SignInPage";
import styles from "./SignInPage.module.css";

/** Where an invitation's link leads; its token is the fragment, which no server is sent. */
export function WelcomePage() {
  const token = useLocation().hash.slice(1);
  const offer = useQuery(offerQuery(token));
  const session = useQuery(sessionQuery);
  return (
    <main className={styles.page}>
      <title>Welcome · Loraplex</title>
      <div className={styles.card}>
        <Logo />
        {(offer.isPending || session.isPending) && <Skeleton label="Looking at your invitation" />}
        {offer.error && (
          <>
            <Notice tone="bad" title="This link does not work">
              {explain(offer.error)}
            </Notice>
            <Link to="/">Sign in instead</Link>
          </>
        )}
        {offer.data && !session.isPending && (
          <Accept
            key={token}
            token={token}
            offer={offer.data}
            email={session.data?.person?.email ?? null}
          />
        )}
      </div>
    </main>
  );
}

type Props = { token: string; offer: Offer; email: string | null };

/** `email` is of whoever is signed in: an account's owner need not prove again that it is theirs. */
function Accept({ token, offer, email }: Props) {
  const accept = useAccept();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [isMissing, setMissing] = useState(false);
  const isNewPassword = offer.kind === "password" || !offer.has_account;
  const isOwner = !isNewPassword && email === offer.email;

  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    setMissing(!isOwner && password === "");
    if (!isOwner && password === "") return;
    accept.mutate(
      { token, display_name: name.trim(), ...(!isOwner && { password }) },
      { onSuccess: () => void navigate("/", { replace: true }) },
    );
  };
  const refusal = accept.error && explain(accept.error);
  return (
    <>
      <div>
        <h1>{title(offer)}</h1>
        <p className={styles.lead}>{lead(offer)}</p>
      </div>
      {email !== null && email !== offer.email && (
        <Notice tone="info" title={`You are signed in as ${email}`}>
          Continue, and this browser is {offer.email}&rsquo;s instead.
        </Notice>
      )}
      {offer.kind !== "password" && !isOwner && <ProviderButton invitation={token} />}
      <form className={styles.form} onSubmit={submit} noValidate>
        <input // Tells password managers whose password it is.
          className="visually-hidden"
          autoComplete="username"
          value={offer.email}
          readOnly
          tabIndex={-1}
          aria-hidden="true"
        />
        {isNewPassword && offer.kind !== "password" && (
          <Field label="Your name">
            {(ids) => (
              <input
                {...ids}
                name="name"
                autoComplete="name"
                maxLength={128}
                value={name}
                onChange={(event) => {
                  setName(event.target.value);
                }}
              />
            )}
          </Field>
        )}
        {isOwner ? (
          refusal && <p role="alert">{refusal}</p>
        ) : (
          <Field
            label={isNewPassword ? "Choose a password" : "Password of your account"}
            hint={isNewPassword ? "12 characters or more." : undefined}
            error={isMissing ? "Give a password first." : refusal}
          >
            {(ids) => (
              <input
                {...ids}
                type="password"
                name="password"
                autoComplete={isNewPassword ? "new-password" : "current-password"}
                value={password}
                onChange={(event) => {
                  setPassword(event.target.value);
                }}
              />
            )}
          </Field>
        )}
        <Button look="primary" type="submit" disabled={accept.isPending}>
          {accept.isPending ? "One moment…" : "Continue"}
        </Button>
      </form>
    </>
  );
}

function title(offer: Offer): string {
  if (offer.kind === "password") return "Choose a new password";
  return offer.kind === "tenant" ? `Join ${offer.tenant ?? ""}` : "Operate Loraplex";
}

function lead({ kind, email, role }: Offer): string {
  return kind === "password" || role === null ? email : `${email}, as ${ROLES[role] ?? role}`;
}

const ROLES: Record<string, string> = {
  owner: "an owner",
  admin: "an admin",
  admin_viewer: "an admin who reads",
  developer: "a developer",
  viewer: "a viewer",
  inference: "a caller of models",
};
