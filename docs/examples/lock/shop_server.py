from mcp.server.mcpserver import MCPServer

server = MCPServer("shop", version="1.0", log_level="ERROR")


@server.tool()
def pay(amount: int, to: str) -> str:
    """Pay a bill."""
    return f"paid {amount} to {to}"


@server.tool()
def stock(article: str) -> int:
    """Say how many pieces of an article are left."""
    return len(article)


if __name__ == "__main__":
    server.run()
