import { queryOptions, useMutation, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { api, unwrap } from "@/shared/api/client";
import { ApiError } from "@/shared/api/problem";
import type { Session } from "@/shared/api/types";

/** Who is signed in; null is nobody, which is an answer and not a failure. */
export const sessionQuery = queryOptions({
  queryKey: ["session"] as const,
  queryFn: ({ signal }) => currentSession(signal),
  staleTime: Infinity,
});

async function currentSession(signal: AbortSignal): Promise<Session | null> {
  try {
    return await unwrap(api.GET("/api/v1/session", { signal }));
  } catch (error) {
    if (error instanceof ApiError && error.failure === "signed-out") return null;
    throw error;
  }
}

export function useSignIn() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (apiKey: string) =>
      unwrap(api.POST("/api/v1/session", { body: { api_key: apiKey } })),
    onSuccess: (session) => {
      becomeSession(client, session);
    },
  });
}

export function useSignOut() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => unwrap(api.DELETE("/api/v1/session")),
    onSuccess: () => {
      becomeSession(client, null);
    },
  });
}

/** What one signed-in key has loaded, the next one must not see. */
export function becomeSession(client: QueryClient, session: Session | null) {
  client.removeQueries({ predicate: (query) => query.queryKey[0] !== sessionQuery.queryKey[0] });
  client.setQueryData(sessionQuery.queryKey, session);
}
