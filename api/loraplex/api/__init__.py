"""The gateway: HTTP for tenants, owners and operators."""
