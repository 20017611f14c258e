"""What a name points at: aliases, their moves, and rollouts that split an alias's traffic."""
