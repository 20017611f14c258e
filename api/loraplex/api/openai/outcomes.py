"""How a call may end."""

COMPLETED, CANCELLED, FAILED = "completed", "cancelled", "failed"
