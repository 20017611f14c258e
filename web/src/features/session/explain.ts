import { ApiError } from "@/shared/api/problem";

const WORDS: Record<string, string> = {
  invalid_api_key:
    "Loraplex does not know this key. Check that it was copied whole and has not been revoked.",
  invalid_login: "The e-mail address or the password is wrong.",
  no_membership: "You are not a member of any tenant yet. Ask its owner for an invitation.",
  oidc_state: "This sign-in took too long, or was begun in another browser. Begin it again.",
  oidc_refused: "Your identity provider did not confirm who you are.",
  oidc_email_unverified: "Your identity provider has not verified your e-mail address.",
  oidc_unavailable: "The identity provider does not answer. Try again in a moment.",
  invitation_not_found:
    "This link works no more: it was used, withdrawn, or is too old. Ask for a new one.",
  not_the_invited: "This is not the password of the account that was invited.",
};

/** Words for the code of a refusal that came with an address, not with an answer. */
export const explainCode = (code: string) => WORDS[code] ?? "Try again.";

export function explain(error: Error): string {
  if (!(error instanceof ApiError)) return error.message;
  if (error.failure === "limited") {
    const wait = error.retryAfterSeconds;
    const when = wait === null ? "in a minute" : `in ${Math.ceil(wait)} seconds`;
    return `Too many failed attempts. Try again ${when}.`;
  }
  return WORDS[error.code ?? ""] ?? error.message;
}
