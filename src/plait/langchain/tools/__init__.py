"""What an MCP tool is in LangChain, and what happens when it is called."""
