import type { Version } from "@/shared/api/types";
import { Badge, type BadgeTone } from "@/shared/ui/Badge";
import { isMoving } from "./api";

const TONES: Record<Version["status"], BadgeTone> = {
  uploaded: "warn",
  validating: "warn",
  ready: "good",
  rejected: "bad",
};

export function StatusBadge({ status }: Pick<Version, "status">) {
  return (
    <Badge tone={TONES[status]} isMoving={isMoving({ status })}>
      {status}
    </Badge>
  );
}
