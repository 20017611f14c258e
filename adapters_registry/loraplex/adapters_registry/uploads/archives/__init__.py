"""An adapter in one file: which archives are accepted, and how they are read without trust."""

from loraplex.adapters_registry.uploads.archives.expansion import expand

__all__ = ["expand"]
