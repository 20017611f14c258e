import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "@/shared/api/client";
import { abortUpload } from "./resumable";

const POLL_MS = 500;

export const uploadKeys = {
  all: ["uploads"] as const,
  pending: () => [...uploadKeys.all, "pending"] as const,
  one: (id: string) => [...uploadKeys.all, "one", id] as const,
};

/** One upload, asked for again while it is being completed. */
export const uploadQuery = (id: string) =>
  queryOptions({
    queryKey: uploadKeys.one(id),
    queryFn: ({ signal }) => {
      const path = { upload_id: id };
      return unwrap(api.GET("/api/v1/uploads/{upload_id}", { params: { path }, signal }));
    },
    refetchInterval: ({ state }) => (state.data?.status === "completing" ? POLL_MS : false),
  });

/** Uploads that wait for the rest of their parts. */
export const usePendingUploads = () =>
  useQuery({
    queryKey: uploadKeys.pending(),
    queryFn: async ({ signal }) => {
      const query = { status: "pending" as const };
      return (await unwrap(api.GET("/api/v1/uploads", { params: { query }, signal }))).data;
    },
  });

export function useAbortUpload() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: abortUpload,
    onSettled: () => client.invalidateQueries({ queryKey: uploadKeys.all }),
  });
}
