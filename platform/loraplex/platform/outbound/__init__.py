"""HTTP to addresses that people outside gave us, which must never reach into our own network."""
