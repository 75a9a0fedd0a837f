"""The reasoning tools as an MCP server, on stdio and HTTP, in both eras of the protocol."""
