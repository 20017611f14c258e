import { useKeyNames, useMemberNames } from "@/features/usage/names";
import { Loaded } from "@/shared/ui/Loaded";
import { Card } from "@/shared/ui/Page";
import { useLimits } from "./api";
import { LimitsView, type SubjectName } from "./LimitsView";

/** The signed-in tenant's limits. Which currency they are in, its usage tells. */
export function LimitsCard({ currency }: { currency: string | null }) {
  const limits = useLimits();
  const has = (subject: string) => limits.data?.some((one) => one.subject === subject) ?? false;
  const keyName = useKeyNames(has("key"));
  const memberName = useMemberNames(has("member"));
  const nameOf: SubjectName = ({ subject, id }) => {
    if (subject === "key") return keyName(id ?? "");
    return subject === "member" ? memberName(id ?? "") : (id ?? "");
  };
  return (
    <Card title="Limits and budgets">
      <Loaded query={limits} label="Loading your limits" rows={2}>
        {(all) => <LimitsView limits={all} currency={currency} nameOf={nameOf} />}
      </Loaded>
    </Card>
  );
}
