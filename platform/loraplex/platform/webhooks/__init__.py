"""Tells tenants' own servers what happened: events, endpoints, deliveries and their attempts."""
