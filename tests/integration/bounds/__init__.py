"""Servers that try to freeze this process, or to fill its memory."""
