"""The series of /metrics, a module for each thing that they tell of."""
