"""Base models: one file per architecture over shared building blocks."""
