"""Open-loop load on a server that speaks OpenAI's API over HTTP."""
