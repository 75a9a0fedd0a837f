"""A server that says nothing before a file exists; its one tool returns the name of the file."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from mcp.server import MCPServer

gate = Path(sys.argv[1])
server = MCPServer("late", log_level="WARNING")
server.add_tool(lambda: gate.name, name=sys.argv[2], description="Return where this is.")

if __name__ == "__main__":
    while not gate.exists():
        time.sleep(0.02)
    server.run("stdio")
