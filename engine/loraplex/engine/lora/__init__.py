"""Adapters as the kernels see them: rank tiles in pages, and a step's segments of rows."""
