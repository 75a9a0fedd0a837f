"""The reasoning server: modes of thought as MCP tools, kept in a database."""
