"""Use the installed plait with the MCP SDK of this environment, 1.x, 2.x or none: PYTHON.

Run by try_beside.py. PYTHON is an interpreter that has `plait.testing` with all it needs, for
servers on a network.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from plait import AuthRequiredError, Toolbox

OTHER = sys.argv[1]
SERVER = """
try:
    from mcp.server import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server

server = Server("shop")


@server.tool()
def price(name: str, amount: int = 1) -> int:
    "Return what something costs."
    return len(name) * amount


if __name__ == "__main__":
    server.run()
"""
"""A server of the user, for the SDK that is installed."""


def sdk_version() -> int:
    """Return which MCP SDK is installed; 0 without one."""
    try:
        return int(version("mcp").split(".")[0])
    except PackageNotFoundError:
        return 0


@contextmanager
def served(*arguments: str) -> Generator[str]:
    """Run a server of `plait.testing` in the other interpreter, and yield its address."""
    command = [OTHER, "-m", *arguments, "--port", "0", "--until-stdin-closes"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        try:
            yield server.stderr.readline().split()[-1]
        finally:
            server.communicate()


class Refusal(BaseHTTPRequestHandler):
    """Refuses every request, and says where to sign in."""

    def do_POST(self) -> None:
        """Answer with 401."""
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Bearer scope="read"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


async def without_sdk() -> None:
    """Call servers on every transport, and be refused by one."""
    clock = {"command": sys.executable, "args": ["-m", "plait.testing.server", "--transport=stdio"]}
    with (
        served("plait.testing.server", "--transport", "http") as http,
        served("plait.testing.server", "--transport", "sse") as sse,
        served("plait.testing.server", "--transport", "websocket") as websocket,
    ):
        servers = {
            "stdio": clock,
            "http": {"url": http},
            "sse": {"url": sse, "transport": "sse"},
            "websocket": {"url": websocket},
        }
        async with Toolbox(servers) as box:
            assert len(await box.tools()) == 12
            for name in servers:
                assert (await box.call(name, "add_numbers", {"a": 2, "b": 3})).text == "5", name
        Path("mcp.json").write_text(json.dumps({"mcpServers": servers}))
        for words in (
            ("tools",),
            ("call", "http", "add_numbers", "a=2", "b=3"),
            ("prompts",),
            ("resources",),
            ("doctor",),
        ):
            done = subprocess.run(
                [sys.executable, "-m", "plait.cli", *words, "-c", "mcp.json"],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (words, done.stdout, done.stderr)
    door = HTTPServer(("127.0.0.1", 0), Refusal)
    threading.Thread(target=door.serve_forever, daemon=True).start()
    async with Toolbox({"door": {"url": f"http://127.0.0.1:{door.server_port}/mcp"}}) as box:
        try:
            await box.tools()
        except AuthRequiredError as error:
            assert "auth" in str(error), error
        else:
            raise AssertionError("the server that refuses everybody was listed")
    door.shutdown()
    assert "mcp" not in sys.modules


async def with_sdk() -> None:
    """Call a server of the user on stdio, in this process, and with sessions of the SDK."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    from plait import MultiServerMCPClient
    from plait.langchain import create_session, load_mcp_tools

    Path("shop.py").write_text(SERVER)
    entry = {"command": sys.executable, "args": ["shop.py"], "transport": "stdio"}
    async with MultiServerMCPClient({"shop": entry}) as client:
        [tool] = await client.get_tools()
        assert await tool.ainvoke({"name": "tea", "amount": 3}) == "9"
        async with client.session("shop") as session:
            assert isinstance(session, ClientSession)
            [listed] = await load_mcp_tools(session)
            assert await listed.ainvoke({"name": "tea"}) == "3"
    async with create_session(entry) as session:
        await session.initialize()
        assert [tool.name for tool in (await session.list_tools()).tools] == ["price"]
    async with stdio_client(
        StdioServerParameters(command=sys.executable, args=["shop.py"])
    ) as streams:
        async with ClientSession(*streams) as session:
            await session.initialize()
            [own] = await load_mcp_tools(session)
            assert await own.ainvoke({"name": "cup", "amount": 2}) == "6"
    sys.path.insert(0, ".")
    import shop

    async with Toolbox({"inside": shop.server}) as box:
        assert (await box.call("inside", "price", {"name": "jam"})).text == "3"


if sdk_version():
    asyncio.run(with_sdk())
else:
    asyncio.run(without_sdk())
