"""Backups of an embedded installation: taken while it serves, and put into a new directory."""
