"""From logits to the next token, sequence by sequence."""
