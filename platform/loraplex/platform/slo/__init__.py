"""Classes of service: what is promised of a request's latency, and to whom."""
