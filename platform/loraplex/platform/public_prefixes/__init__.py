"""System prompts that an operator has declared public: their KV is kept once for all tenants."""
