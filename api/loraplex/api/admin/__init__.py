"""The management routes of operators under /api/v1/admin."""
