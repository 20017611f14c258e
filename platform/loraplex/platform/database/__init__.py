"""Sessions, roles, row-level security and the outbox."""
