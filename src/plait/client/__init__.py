"""The tools of many MCP servers behind one `Toolbox`; knows no agent framework."""
