"""Launch the servers of this package from a test or a client."""

from __future__ import annotations

import sys
from typing import Unpack

from plait.testing.faults.options import FaultOptions, Transport, flags_from_options
from plait.testing.processes import ServerProcess


def running_server(*args: str, port: int = 0) -> ServerProcess:
    """Return the well-behaved test server on a port; entering its context starts it.

    `args` are more flags of its command line, such as `"--transport", "sse"`.
    """
    return ServerProcess(
        [*_python("server"), "--port", "{port}", "--until-stdin-closes", *args], port=port
    )


def fault_server(transport: Transport = "http", **options: Unpack[FaultOptions]) -> ServerProcess:
    """Return a fault server on a port; entering its context starts it.

    Its ledger and counters are in `server.state`.
    """
    if transport == "stdio":
        raise ValueError("a stdio server is started by its client: pass it `stdio_config(...)`")
    port = options.get("port", 0)
    flags = options.copy()
    flags.pop("port", None)
    flags.pop("state_dir", None)
    return ServerProcess(
        [
            *_python("faults"),
            f"--transport={transport}",
            "--port={port}",
            "--state-dir={state_dir}",
            "--until-stdin-closes",
            *flags_from_options(flags),
        ],
        port=port,
        state_dir=options.get("state_dir"),
    )


def stdio_config(**options: Unpack[FaultOptions]) -> dict[str, object]:
    """Return the `mcp.json` entry of a fault server on stdio."""
    command, *args = _python("faults")
    return {"command": command, "args": [*args, "--transport=stdio", *flags_from_options(options)]}


def server_stdio_config() -> dict[str, object]:
    """Return the `mcp.json` entry of the test server on stdio."""
    command, *args = _python("server")
    return {"command": command, "args": [*args, "--transport", "stdio"]}


def _python(module: str) -> list[str]:
    return [sys.executable, "-m", f"plait.testing.{module}"]
