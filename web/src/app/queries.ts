import { QueryCache, QueryClient } from "@tanstack/react-query";
import { becomeSession } from "@/features/session/api";
import { ApiError } from "@/shared/api/problem";

/** Only what may pass by itself is tried again: no answer, or a server that could not. */
const isPassing = (error: Error) =>
  error instanceof ApiError && (error.failure === "network" || error.failure === "unavailable");

/** A 401 on any page means that the session is over; a 403 never signs anybody out. */
export function makeQueryClient(): QueryClient {
  const client: QueryClient = new QueryClient({
    queryCache: new QueryCache({
      onError: (error) => {
        if (error instanceof ApiError && error.failure === "signed-out")
          becomeSession(client, null);
      },
    }),
    defaultOptions: {
      queries: {
        staleTime: 5_000,
        retry: (failures, error) => failures < 2 && isPassing(error),
      },
    },
  });
  return client;
}
