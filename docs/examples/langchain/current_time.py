from plait import MultiServerMCPClient

with MultiServerMCPClient({"time": {"command": "mcp-server-time"}}) as client:
    (now,) = client.get_tools_blocking(include="get_current_time")
    print(now.invoke({"timezone": "Europe/Berlin"}))
