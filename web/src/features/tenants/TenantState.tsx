import type { TenantDetails } from "@/shared/api/types";
import { Badge, type BadgeTone } from "@/shared/ui/Badge";

const TONES: Record<string, BadgeTone> = {
  active: "good",
  suspended: "bad",
  deleting: "warn",
} satisfies Partial<Record<TenantDetails["state"], BadgeTone>>;

export const TenantState = ({ state }: { state: string }) => (
  <Badge tone={TONES[state] ?? "quiet"}>{state}</Badge>
);
