"""Runs a planned step on a device: where the scheduler's numbers meet tensors."""
