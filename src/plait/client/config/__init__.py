"""Servers and policies as validated data, read from Python values and mcp.json files."""
