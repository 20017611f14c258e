"""Chat templates, tokens and the text of streams."""
