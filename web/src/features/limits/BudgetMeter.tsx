import { formatMoney } from "@/shared/format";
import { Badge, type BadgeTone } from "@/shared/ui/Badge";
import { standing, type Budget, type Standing } from "./budgets";
import styles from "./BudgetMeter.module.css";

const WORDS: Record<Standing, readonly [BadgeTone, string]> = {
  free: ["good", "within"],
  soft: ["warn", "near its end"],
  gone: ["bad", "spent"],
};

/** What is spent of a budget, what running requests hold, and where its two marks are. */
export function BudgetMeter({ budget, currency }: { budget: Budget; currency: string | null }) {
  const { period, hard, soft, spent, reserved } = budget;
  const [tone, word] = WORDS[standing(budget)];
  const money = (micros: number) => formatMoney(micros, currency);
  const part = (micros: number) => ({ flexBasis: `${hard > 0 ? (100 * micros) / hard : 100}%` });
  return (
    <div className={styles.budget}>
      <div className={styles.line}>
        <h3>{period}</h3>
        <span>
          {money(spent)} of {money(hard)}
        </span>
        <Badge tone={tone}>{word}</Badge>
      </div>
      <div className={styles.bar} aria-hidden="true">
        <div className={styles[tone]} style={part(spent)} />
        <div className={styles.reserved} style={part(reserved)} />
        <div className={styles.mark} style={{ left: `${hard > 0 ? (100 * soft) / hard : 100}%` }} />
      </div>
      <p className={styles.note}>
        {reserved > 0 && `${money(reserved)} held by running requests. `}
        Webhooks are told at {money(soft)}; at {money(hard)} requests are refused.
      </p>
    </div>
  );
}
