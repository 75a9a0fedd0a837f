"""A local authorization server and an MCP server it protects, for tests of signing in."""
