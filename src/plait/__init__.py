"""Give AI agents their MCP tools, and never drop them."""
