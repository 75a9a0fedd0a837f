"""Use the installed plait where no MCP SDK is installed: PYTHON.

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
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from plait import AuthRequiredError, Toolbox

CLOCK = {"command": sys.executable, "args": ["-m", "plait.testing.server", "--transport=stdio"]}
COMMANDS = ("tools", "call http add_numbers a=2 b=3", "prompts", "resources", "doctor")


@contextmanager
def served(transport: str) -> Generator[str]:
    """Run a server in the other interpreter, and yield its address."""
    command = [sys.argv[1], "-m", "plait.testing.server", "--transport", transport]
    with subprocess.Popen(
        [*command, "--port", "0", "--until-stdin-closes"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stderr is not None
        try:
            yield server.stderr.readline().split()[-1]
        finally:
            server.communicate()


class Refusal(BaseHTTPRequestHandler):
    """Refuses every request, and says that one has to sign in."""

    def do_POST(self) -> None:
        """Answer with 401."""
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Bearer scope="read"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing."""


async def call_all(servers: dict[str, Any]) -> None:
    """Call a tool of every server."""
    async with Toolbox(servers) as box:
        assert len(await box.tools()) == 3 * len(servers)
        for name in servers:
            assert (await box.call(name, "add_numbers", {"a": 2, "b": 3})).text == "5", name


async def refused_by(url: str) -> str:
    """Return why a server cannot be used."""
    async with Toolbox({"door": {"url": url}}) as box:
        try:
            await box.tools()
        except AuthRequiredError as error:
            return f"{error} {error.challenge}"
    raise AssertionError("the server that refuses everybody was listed")


def main() -> None:
    """Call servers on every transport, use the commands, and be refused."""
    with ExitStack() as stack:
        urls = {name: stack.enter_context(served(name)) for name in ("http", "sse", "websocket")}
        servers: dict[str, Any] = {name: {"url": url} for name, url in urls.items()}
        servers["sse"]["transport"] = "sse"
        servers["stdio"] = CLOCK
        asyncio.run(call_all(servers))
        Path("mcp.json").write_text(json.dumps({"mcpServers": servers}))
        for words in COMMANDS:
            command = [sys.executable, "-m", "plait.cli", *words.split(), "-c", "mcp.json"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 0, (words, done.stdout, done.stderr)
    with HTTPServer(("127.0.0.1", 0), Refusal) as door:
        threading.Thread(target=door.serve_forever, daemon=True).start()
        reason = asyncio.run(refused_by(f"http://127.0.0.1:{door.server_port}/mcp"))
        assert "credentials are missing" in reason, reason
        assert 'Bearer scope="read"' in reason, reason
        door.shutdown()
    assert "mcp" not in sys.modules


main()
