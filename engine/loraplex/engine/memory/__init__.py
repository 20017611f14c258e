"""One pool of pages for KV blocks and adapter weights, and what is resident in it."""
