import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { Invited } from "@/features/members/api";
import { spanOf } from "@/features/usage/period";
import { api, unwrap } from "@/shared/api/client";
import { everyPage } from "@/shared/api/pages";

const tenantKeys = {
  all: ["tenants"] as const,
  list: () => [...tenantKeys.all, "list"] as const,
  one: (name: string) => [...tenantKeys.all, "one", name] as const,
  limits: (name: string) => [...tenantKeys.all, "limits", name] as const,
  usage: (name: string) => [...tenantKeys.all, "usage", name] as const,
};

const LIMITS_REFRESH_MS = 10_000;

export const useTenants = () =>
  useQuery({
    queryKey: tenantKeys.list(),
    queryFn: ({ signal }) =>
      everyPage((query) => unwrap(api.GET("/api/v1/admin/tenants", { params: { query }, signal }))),
  });

const at = (tenant: string) => ({ path: { tenant } });

export const useTenant = (tenant: string) =>
  useQuery({
    queryKey: tenantKeys.one(tenant),
    queryFn: ({ signal }) =>
      unwrap(api.GET("/api/v1/admin/tenants/{tenant}", { params: at(tenant), signal })),
  });

/** Its limits, and those of its models, members and keys, with what is used of them now. */
export const useTenantLimits = (tenant: string) =>
  useQuery({
    queryKey: tenantKeys.limits(tenant),
    queryFn: ({ signal }) =>
      everyPage((query) =>
        unwrap(
          api.GET("/api/v1/admin/tenants/{tenant}/limits-in-use", {
            params: { ...at(tenant), query },
            signal,
          }),
        ),
      ),
    refetchInterval: LIMITS_REFRESH_MS,
  });

/** What it used in the last 31 days, which fit on one page. */
export const useTenantUsage = (tenant: string) =>
  useQuery({
    queryKey: tenantKeys.usage(tenant),
    queryFn: ({ signal }) => {
      const span = spanOf({ kind: "31d" }, "1d", Date.now());
      const query = { ...span, bucket_width: "1d" as const, tenant: [tenant] };
      return unwrap(api.GET("/api/v1/admin/usage", { params: { query }, signal }));
    },
  });

export function useCreateTenant() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (body: { name: string; display_name: string }) =>
      unwrap(api.POST("/api/v1/admin/tenants", { body })),
    onSettled: () => client.invalidateQueries({ queryKey: tenantKeys.all }),
  });
}

/** Suspends with a reason, and lets in again. */
export function useTenantActions(tenant: string) {
  const client = useQueryClient();
  const onSettled = () => client.invalidateQueries({ queryKey: tenantKeys.all });
  const suspend = useMutation({
    mutationFn: (reason: string) =>
      unwrap(
        api.POST("/api/v1/admin/tenants/{tenant}/suspend", {
          params: at(tenant),
          body: { reason },
        }),
      ),
    onSettled,
  });
  const resume = useMutation({
    mutationFn: () =>
      unwrap(api.POST("/api/v1/admin/tenants/{tenant}/resume", { params: at(tenant) })),
    onSettled,
  });
  return { suspend, resume };
}

/** Makes a member's link. It is told in this mutation's `data` and nowhere else. */
export const useInviteTo = (tenant: string) =>
  useMutation({
    mutationFn: (body: Invited) =>
      unwrap(api.POST("/api/v1/admin/tenants/{tenant}/members", { params: at(tenant), body })),
    gcTime: 0,
  });
