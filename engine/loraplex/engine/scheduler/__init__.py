"""Decides each step who computes how many tokens. Knows counters and pages, not phases."""
