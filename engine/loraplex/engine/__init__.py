"""The data plane: one engine per base model, batching every tenant's adapters together."""
