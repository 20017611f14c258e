"""Tenants and the keys that prove them."""
