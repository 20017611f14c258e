"""How adapter bytes come in."""
