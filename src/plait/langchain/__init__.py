"""Tools, prompts and resources of MCP servers, for LangChain and LangGraph."""
