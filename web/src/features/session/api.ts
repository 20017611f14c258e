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
    mutationFn: (body: { api_key: string } | { email: string; password: string }) =>
      unwrap(api.POST("/api/v1/session", { body })),
    onSuccess: (session) => {
      becomeSession(client, session);
    },
  });
}

/** Which ways of signing in there are beside a password and a key. */
export const methodsQuery = queryOptions({
  queryKey: ["session", "methods"] as const,
  queryFn: ({ signal }) => unwrap(api.GET("/api/v1/session/methods", { signal })),
  staleTime: Infinity,
  retry: false,
});

/** Leaves for the identity provider, which sends the browser back to the gateway. */
export function useBeginOidc() {
  return useMutation({
    mutationFn: (start: { next?: string; invitation?: string }) =>
      unwrap(api.POST("/api/v1/session/oidc", { body: start })),
    onSuccess: ({ url }) => {
      window.location.assign(url);
    },
  });
}

export const offerQuery = (token: string) =>
  queryOptions({
    queryKey: ["session", "offer", token] as const,
    queryFn: ({ signal }) =>
      unwrap(api.POST("/api/v1/session/invitation/look", { body: { token }, signal })),
    staleTime: Infinity,
    retry: false,
  });

export function useAccept() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: { token: string; password?: string; display_name: string }) =>
      unwrap(api.POST("/api/v1/session/invitation", { body })),
    onSuccess: (session) => {
      becomeSession(client, session);
    },
  });
}

/** Goes to another tenant of the person's, or with null among the operators. */
export function useChoosePlace() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (tenant: string | null) =>
      unwrap(
        api.PATCH("/api/v1/session", {
          body: tenant === null ? { operator: true } : { tenant },
        }),
      ),
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
