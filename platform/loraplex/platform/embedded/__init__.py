"""Postgres, Valkey and S3 as child processes, for one-command use."""
