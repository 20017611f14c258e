"""Immutable versions of an adapter, and how a model name finds one."""
