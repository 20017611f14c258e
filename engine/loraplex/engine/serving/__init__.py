"""One worker process around an engine: sockets, heartbeats and registration, a thread each."""
