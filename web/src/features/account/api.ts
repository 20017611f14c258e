import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { becomeSession } from "@/features/session/api";
import { api, unwrap } from "@/shared/api/client";

const KEY = ["own-sessions"] as const;

/** The person's signed-in browsers, the newest first. */
export const useOwnSessions = () =>
  useQuery({
    queryKey: KEY,
    queryFn: async ({ signal }) => (await unwrap(api.GET("/api/v1/sessions", { signal }))).data,
  });

export function useEndSession(sessionId: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () =>
      unwrap(
        api.DELETE("/api/v1/sessions/{session_id}", {
          params: { path: { session_id: sessionId } },
        }),
      ),
    onSettled: () => client.invalidateQueries({ queryKey: KEY }),
  });
}

export function useEndOtherSessions() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => unwrap(api.DELETE("/api/v1/sessions")),
    onSettled: () => client.invalidateQueries({ queryKey: KEY }),
  });
}

/** All other sessions end with it; this one goes on under a new cookie. */
export function useChangePassword() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: { current_password: string; new_password: string }) =>
      unwrap(api.POST("/api/v1/session/password", { body })),
    gcTime: 0,
    onSuccess: (session) => {
      becomeSession(client, session);
    },
  });
}
