import { keepPreviousData, useMutation, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "@/shared/api/client";
import type { Usage } from "@/shared/api/types";
import { saveFile } from "@/shared/saveFile";
import { joined } from "./amounts";
import { refusalOf, spanOf } from "./period";
import type { Question } from "./question";

const REFRESH_MS = 30_000;

/** Usage up to now; what was shown stays until the answer to another question is there. */
export const useUsage = (question: Question) =>
  useQuery({
    queryKey: ["usage", question.period, question.width, question.by] as const,
    queryFn: ({ signal }) => everyBucket(question, signal),
    placeholderData: keepPreviousData,
    staleTime: 0,
    refetchInterval: REFRESH_MS,
    enabled: refusalOf(question.period) === null,
  });

async function everyBucket(question: Question, signal: AbortSignal): Promise<Usage> {
  const query = queryOf(question);
  const ask = (cursor: string | null) =>
    unwrap(
      api.GET("/api/v1/usage", {
        params: { query: { ...query, ...(cursor !== null && { cursor }) } },
        signal,
      }),
    );
  const pages: [Usage, ...Usage[]] = [await ask(null)];
  for (let last = pages[0]; last.next_cursor !== null;) {
    last = await ask(last.next_cursor);
    pages.push(last);
  }
  return joined(pages);
}

/** The same question's answer as a file; the whole of it, or a refusal. */
export function useUsageFile() {
  return useMutation({
    mutationFn: async (question: Question) => {
      const query = queryOf(question);
      const call = api.GET("/api/v1/usage/export", { params: { query }, parseAs: "blob" });
      saveFile(await unwrap(call), `usage-${query.start.slice(0, 10)}-${query.bucket_width}.csv`);
    },
  });
}

const queryOf = ({ period, width, by }: Question) => ({
  ...spanOf(period, width, Date.now()),
  bucket_width: width,
  ...(by !== "" && { group_by: [by] }),
});
