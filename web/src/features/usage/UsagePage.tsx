import { LimitsCard } from "@/features/limits/LimitsCard";
import { May } from "@/features/session/May";
import { Button } from "@/shared/ui/Button";
import { Loaded } from "@/shared/ui/Loaded";
import { Notice } from "@/shared/ui/Notice";
import { Card, Page } from "@/shared/ui/Page";
import { useUsage, useUsageFile } from "./api";
import { refusalOf } from "./period";
import { useQuestion } from "./question";
import { UsageControls } from "./UsageControls";
import { UsageView } from "./UsageView";
import styles from "./UsagePage.module.css";

export function UsagePage() {
  const [question, ask] = useQuestion(); // lives in the URL
  const usage = useUsage(question);
  const file = useUsageFile();
  const isPossible = refusalOf(question.period) === null;
  return (
    <Page
      title="Usage"
      lead="A request counts when it ends, in UTC. It is here a moment later."
      actions={
        <Button
          disabled={file.isPending || !isPossible}
          onClick={() => {
            file.mutate(question);
          }}
        >
          {file.isPending ? "One moment…" : "Download CSV"}
        </Button>
      }
    >
      {file.error && (
        <Notice tone="bad" title="The file was not made">
          {file.error.message}
        </Notice>
      )}
      <May scope="limits.read">
        <LimitsCard currency={usage.data?.currency ?? null} />
      </May>
      <Card title="What was used">
        <UsageControls question={question} onAsk={ask} />
        {isPossible && (
          <Loaded query={usage} label="Adding it up" rows={4}>
            {(data) => (
              <div className={styles.answer} aria-busy={usage.isPlaceholderData}>
                <UsageView usage={data} measure={question.measure} />
              </div>
            )}
          </Loaded>
        )}
      </Card>
    </Page>
  );
}
