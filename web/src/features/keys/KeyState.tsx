import type { Key } from "@/shared/api/types";
import { Badge, type BadgeTone } from "@/shared/ui/Badge";

const TONES: Record<Key["state"], BadgeTone> = {
  live: "good",
  disabled: "warn",
  expired: "quiet",
  revoked: "quiet",
};

/** A key that was rotated goes on until its overlap is over. */
export function KeyState({ state, replaced_by }: Pick<Key, "state" | "replaced_by">) {
  if (state === "live" && replaced_by !== null) return <Badge tone="warn">rotated</Badge>;
  return <Badge tone={TONES[state]}>{state}</Badge>;
}
