"""The management routes of a tenant under /api/v1."""
