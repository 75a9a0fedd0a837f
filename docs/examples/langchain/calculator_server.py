from langchain_core.tools import tool
from mcp.server import MCPServer

from plait import to_fastmcp


@tool
def average(numbers: list[float]) -> float:
    """Return the mean of some numbers."""
    return sum(numbers) / len(numbers)


MCPServer("calculator", tools=[to_fastmcp(average)], log_level="ERROR").run("stdio")
