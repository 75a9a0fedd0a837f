"""Serves the tools of many servers as one MCP server, whose sessions heal."""
