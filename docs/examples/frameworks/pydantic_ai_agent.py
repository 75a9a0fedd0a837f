from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

plait = MCPToolset(StdioTransport("plait", ["serve", "--config", "mcp.json"]))
agent = Agent("openai:gpt-5-mini", toolsets=[plait])

print(agent.run_sync("What time is it in Berlin?").output)
