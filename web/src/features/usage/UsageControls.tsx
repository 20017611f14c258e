import { useState } from "react";
import type { BucketWidth } from "@/shared/api/types";
import { SelectField, TextField } from "@/shared/ui/fields";
import { FormRow } from "@/shared/ui/Form";
import { PERIODS, refusalOf, spanOf, widthsOf, type Period } from "./period";
import { GROUPS, MEASURES, type Question } from "./question";

const WIDTHS: Record<BucketWidth, string> = { "1m": "Minutes", "1h": "Hours", "1d": "Days" };

type Props = { question: Question; onAsk: (question: Question) => void };

export function UsageControls({ question, onAsk }: Props) {
  const { period, width, by, measure } = question;
  const widths = widthsOf(period).map((one) => [one, WIDTHS[one]] as const);
  return (
    <>
      <FormRow>
        <SelectField
          label="Period"
          value={period.kind}
          options={PERIODS}
          onChange={(kind) => {
            onAsk({ ...question, period: kind === "days" ? daysOf(question) : { kind } });
          }}
        />
        <SelectField
          label="Buckets"
          value={width}
          options={widths}
          onChange={(chosen) => {
            onAsk({ ...question, width: chosen });
          }}
        />
        <SelectField
          label="Group by"
          value={by}
          options={GROUPS}
          onChange={(chosen) => {
            onAsk({ ...question, by: chosen });
          }}
        />
        <SelectField
          label="Chart"
          value={measure}
          options={MEASURES}
          onChange={(chosen) => {
            onAsk({ ...question, measure: chosen });
          }}
        />
      </FormRow>
      {period.kind === "days" && (
        <Days
          period={period}
          onChange={(days) => {
            onAsk({ ...question, period: days });
          }}
        />
      )}
    </>
  );
}

/** The days of the period before, so that choosing days changes nothing yet. */
function daysOf({ period, width }: Question): Period {
  const { start, end } = spanOf(period, width, Date.now());
  const last = new Date(Date.parse(end) - 1).toISOString();
  return { kind: "days", first: start.slice(0, 10), last: last.slice(0, 10) };
}

type DaysProps = { period: Extract<Period, { kind: "days" }>; onChange: (period: Period) => void };

/** A date field is empty while somebody types; only whole dates are asked for. */
function Days({ period, onChange }: DaysProps) {
  const [first, setFirst] = useState(period.first);
  const [last, setLast] = useState(period.last);
  const change = (days: { first: string; last: string }) => {
    setFirst(days.first);
    setLast(days.last);
    if (days.first !== "" && days.last !== "") onChange({ kind: "days", ...days });
  };
  return (
    <FormRow>
      <TextField
        label="First day (UTC)"
        type="date"
        value={first}
        error={refusalOf(period)}
        onChange={(day) => {
          change({ first: day, last });
        }}
      />
      <TextField
        label="Last day (UTC)"
        type="date"
        value={last}
        onChange={(day) => {
          change({ first, last: day });
        }}
      />
    </FormRow>
  );
}
