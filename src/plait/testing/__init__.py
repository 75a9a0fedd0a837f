"""Helpers for tests of programs that use MCP: servers that fail on demand."""
