"""Measures an engine in this process (`bench offline`) and a server over HTTP (`bench serve`)."""
