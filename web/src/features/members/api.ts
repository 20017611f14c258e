import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, unwrap } from "@/shared/api/client";
import { everyPage } from "@/shared/api/pages";
import type { Member } from "@/shared/api/types";

const memberKeys = {
  all: ["members"] as const,
  list: () => [...memberKeys.all, "list"] as const,
  invitations: () => [...memberKeys.all, "invitations"] as const,
};

export type RoleName = Member["role"];
export type Invited = { email: string; role: RoleName };

export const membersQuery = queryOptions({
  queryKey: memberKeys.list(),
  queryFn: ({ signal }) =>
    everyPage((query) => unwrap(api.GET("/api/v1/members", { params: { query }, signal }))),
});

/** Links that still work. */
export const useInvitations = () =>
  useQuery({
    queryKey: memberKeys.invitations(),
    queryFn: ({ signal }) =>
      everyPage((query) => unwrap(api.GET("/api/v1/invitations", { params: { query }, signal }))),
  });

/** Makes a link. It is told in this mutation's `data` and nowhere else. */
export function useInvite() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: Invited) => unwrap(api.POST("/api/v1/members", { body })),
    gcTime: 0,
    onSettled: () => client.invalidateQueries({ queryKey: memberKeys.all }),
  });
}

export function useWithdraw(invitation: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () =>
      unwrap(api.DELETE("/api/v1/invitations/{invitation}", { params: { path: { invitation } } })),
    onSettled: () => client.invalidateQueries({ queryKey: memberKeys.all }),
  });
}

export function useMemberActions(member: string) {
  const client = useQueryClient();
  const params = { path: { member } };
  const onSettled = () => client.invalidateQueries({ queryKey: memberKeys.all });

  const change = useMutation({
    mutationFn: (role: RoleName) =>
      unwrap(api.PATCH("/api/v1/members/{member}", { params, body: { role } })),
    onSettled,
  });
  const remove = useMutation({
    mutationFn: () => unwrap(api.DELETE("/api/v1/members/{member}", { params })),
    onSettled,
  });
  return { change, remove };
}
