"""Whether a request may run now: one transaction, all or nothing."""
