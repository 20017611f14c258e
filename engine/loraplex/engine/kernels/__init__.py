"""The punica ops as torch custom ops: tensors in, tensors out, nothing known of requests."""
