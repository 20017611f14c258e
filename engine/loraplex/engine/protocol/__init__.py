"""What other components may know of the engine: types and messages. Never imports torch."""
