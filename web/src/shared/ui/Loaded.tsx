import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { LoadFailed, Stale } from "./LoadFailed";
import { Skeleton } from "./Skeleton";

type Props<Data> = {
  query: UseQueryResult<Data>;
  /** What a screen reader hears while it loads. */
  label: string;
  rows?: number;
  children: (data: Data) => ReactNode;
};

/** What was asked for, once it is there; before that that it loads, or why it does not. */
export function Loaded<Data>({ query, label, rows, children }: Props<Data>) {
  if (query.isPending) return <Skeleton label={label} {...(rows !== undefined && { rows })} />;
  if (query.isLoadingError) return <LoadFailed error={query.error} onRetry={query.refetch} />;
  return (
    <>
      {query.isRefetchError && <Stale onRetry={query.refetch} />}
      {children(query.data)}
    </>
  );
}
