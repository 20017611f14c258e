"""Adapters a tenant wants kept near, and those that will be asked for by all appearances."""
