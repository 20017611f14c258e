import type { CallerKey, Key } from "@/shared/api/types";

/** Beside its own and nobody's keys: who may end what other members made. */
const MANAGERS: readonly CallerKey["role"][] = ["owner", "admin"];

/** Names of all models, those to come too. */
export const EVERY_MODEL = "*";

const isWithin = (part: readonly string[], whole: readonly string[]) =>
  part.every((one) => whole.includes(one));

const isOwn = (caller: CallerKey, key: Key) =>
  key.member_id === null || key.member_id === caller.member_id;

/** Whether the server would let the caller change, disable and revoke the key. */
export function mayManage(caller: CallerKey, key: Key): boolean {
  const hasModels =
    caller.models.includes(EVERY_MODEL) ||
    (!key.models.includes(EVERY_MODEL) && isWithin(key.models, caller.models));
  return (
    caller.scopes.includes("keys.write") &&
    isWithin(key.scopes, caller.scopes) &&
    hasModels &&
    (isOwn(caller, key) || MANAGERS.includes(caller.role))
  );
}

/** A rotation shows a text, which nobody gets of another member's key. */
export const mayRotate = (caller: CallerKey, key: Key): boolean =>
  mayManage(caller, key) && isOwn(caller, key) && key.state === "live" && key.replaced_by === null;

/** Neither expired nor revoked: it can still be changed. */
export const isOpen = (key: Key): boolean => key.state === "live" || key.state === "disabled";
