"""The MCP session itself, which knows no transport."""
