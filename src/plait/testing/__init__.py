"""Helpers for tests of programs that use MCP: servers and networks that fail on demand.

`plait.testing.fixtures` offers the same as pytest fixtures.
"""

from plait.testing.faults.options import FaultOptions
from plait.testing.ports import blackhole, free_port
from plait.testing.processes import ServerProcess, running
from plait.testing.proxy import FaultProxy
from plait.testing.servers import fault_server, running_server, server_stdio_config, stdio_config
from plait.testing.state import StateDir
from plait.testing.waiting import eventually

__all__ = [
    "FaultOptions",
    "FaultProxy",
    "ServerProcess",
    "StateDir",
    "blackhole",
    "eventually",
    "fault_server",
    "free_port",
    "running",
    "running_server",
    "server_stdio_config",
    "stdio_config",
]
