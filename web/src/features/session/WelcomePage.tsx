import { useQuery } from "@tanstack/react-query";
import { useState, type SubmitEvent } from "react";
import { useLocation, useNavigate } from "react-router";
import type { Offer } from "@/shared/api/types";
import { Button } from "@/shared/ui/Button";
import { Field } from "@/shared/ui/Field";
import { Logo } from "@/shared/ui/Logo";
import { Notice } from "@/shared/ui/Notice";
import { Skeleton } from "@/shared/ui/Skeleton";
import { offerQuery, useAccept } from "./api";
import { explain } from "./explain";
import { ProviderButton } from "./SignInPage";
import styles from "./SignInPage.module.css";

/** Where an invitation's link leads; its token is the fragment, which no server is sent. */
export function WelcomePage() {
  const token = useLocation().hash.slice(1);
  const offer = useQuery(offerQuery(token));
  return (
    <main className={styles.page}>
      <title>Welcome · Loraplex</title>
      <div className={styles.card}>
        <Logo />
        {offer.isPending && <Skeleton label="Looking at your invitation" />}
        {offer.error && (
          <Notice tone="bad" title="This invitation does not work">
            {explain(offer.error)}
          </Notice>
        )}
        {offer.data && <Accept token={token} offer={offer.data} />}
      </div>
    </main>
  );
}

function Accept({ token, offer }: { token: string; offer: Offer }) {
  const accept = useAccept();
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const isNew = offer.kind === "password" || !offer.has_account;

  const submit = (event: SubmitEvent<HTMLFormElement>) => {
    event.preventDefault();
    accept.mutate(
      { token, password, display_name: name.trim() },
      { onSuccess: () => void navigate("/", { replace: true }) },
    );
  };
  return (
    <>
      <div>
        <h1>{title(offer)}</h1>
        <p className={styles.lead}>{offer.email}</p>
      </div>
      {offer.kind !== "password" && <ProviderButton invitation={token} />}
      <form className={styles.form} onSubmit={submit} noValidate>
        {isNew && offer.kind !== "password" && (
          <Field label="Your name">
            {(ids) => (
              <input
                {...ids}
                name="name"
                autoComplete="name"
                value={name}
                onChange={(event) => {
                  setName(event.target.value);
                }}
              />
            )}
          </Field>
        )}
        <Field
          label={isNew ? "Choose a password" : "Password of your account"}
          hint={isNew ? "12 characters or more." : undefined}
          error={accept.error && explain(accept.error)}
        >
          {(ids) => (
            <input
              {...ids}
              type="password"
              name="password"
              autoComplete={isNew ? "new-password" : "current-password"}
              value={password}
              onChange={(event) => {
                setPassword(event.target.value);
              }}
            />
          )}
        </Field>
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
