from langchain.agents import create_agent

from plait import MultiServerMCPClient

with MultiServerMCPClient("mcp.json") as client:  # or {"name": {"url": …}}; async with, too
    agent = create_agent("anthropic:claude-sonnet-5", client.get_tools_blocking())
    state = agent.invoke({"messages": [{"role": "user", "content": "What is 20 + 22?"}]})
    print(state["messages"][-1].text)
