"""The life of an adapter: upload, validation, versions, paging to engines."""
