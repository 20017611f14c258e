"""Adapters that are fetched from where their owners keep them."""
