/** What the page shows, as its address says it. */
import { useSearchParams } from "react-router";
import type { BucketWidth, Usage } from "@/shared/api/types";
import type { Measure } from "./chart";
import { PERIODS, widthsOf, type Period } from "./period";

export type GroupBy = Usage["group_by"][number];

export const GROUPS: readonly (readonly [GroupBy | "", string])[] = [
  ["", "Nothing"],
  ["key", "Key"],
  ["member", "Member"],
  ["model", "Base model"],
  ["adapter", "Adapter"],
];

export const MEASURES: readonly (readonly [Measure, string])[] = [
  ["tokens", "Tokens"],
  ["requests", "Requests"],
  ["cost", "Cost"],
];

export type Question = {
  period: Period;
  width: BucketWidth;
  by: GroupBy | "";
  /** What the chart draws of the answer. */
  measure: Measure;
};

export function readQuestion(search: URLSearchParams): Question {
  const period = readPeriod(search);
  const [usual, ...others] = widthsOf(period);
  const [by] = GROUPS.find(([one]) => one === search.get("by")) ?? [""];
  const [measure] = MEASURES.find(([one]) => one === search.get("chart")) ?? ["tokens"];
  const width = others.find((one) => one === search.get("bucket")) ?? usual;
  return { period, width, by, measure };
}

function readPeriod(search: URLSearchParams): Period {
  const [kind] = PERIODS.find(([one]) => one === search.get("period")) ?? ["7d"];
  if (kind !== "days") return { kind };
  const [first, last] = [search.get("from") ?? "", search.get("to") ?? ""];
  return isDay(first) && isDay(last) ? { kind, first, last } : { kind: "7d" };
}

const isDay = (text: string) => /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text));

export function writeQuestion({ period, width, by, measure }: Question): Record<string, string> {
  return {
    period: period.kind,
    ...(period.kind === "days" && { from: period.first, to: period.last }),
    bucket: width,
    ...(by !== "" && { by }),
    ...(measure !== "tokens" && { chart: measure }),
  };
}

/** The question, and what changes it: a width that does not fit a new period is left out. */
export function useQuestion(): [Question, (question: Question) => void] {
  const [search, setSearch] = useSearchParams();
  const ask = (question: Question) => {
    setSearch(writeQuestion(question), { replace: true });
  };
  return [readQuestion(search), ask];
}
