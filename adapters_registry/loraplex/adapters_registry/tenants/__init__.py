"""All that a tenant has, written into an archive, or removed."""
