"""Starting Python programs without waiting for their imports, which cost more than most tests.

A program started through `python()` is forked from a process that has imported what is slow.
To whoever starts it, it looks like any other: it has the streams, the folder and the environment
that it was given, signals reach it, and it ends with its own exit code. But the process that was
started only stands for the one that does the work, so that a kill of the first reaches the second
a moment later: `send_signal` reaches it at once. Tests about processes themselves start
`sys.executable`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import marshal
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Unpack

import psutil

from plait import testing
from plait.testing import FaultOptions, ServerProcess
from plait.testing.faults.fault_options import Transport

_HERE = Path(__file__).parent
_nurseries: set[int] = set()


def python(*slow: str) -> tuple[str, ...]:
    """Return the command that starts Python with modules imported; `slow` names more of them.

    After it comes what comes after `python`: a file or `-m` and a module, then its arguments.
    """
    return (sys.executable, "-I", "-S", str(_HERE / "stand_in.py"), _address(slow))


def processes() -> frozenset[int]:
    """Return the nurseries themselves, which stay until this process ends."""
    return frozenset(_nurseries)


def entry(*arguments: str, **more: object) -> dict[str, object]:
    """Return the `mcp.json` entry of a Python program; `more` are further keys of it."""
    command, *first = python()
    return {"command": command, "args": [*first, *arguments], **more}


def fault_server(transport: Transport = "http", **options: Unpack[FaultOptions]) -> ServerProcess:
    """Return a fault server on a port, like the function of this name in `plait.testing`."""
    server = testing.fault_server(transport, **options)
    return _NursedServer(
        [*python(), *server.command[1:]], port=server.port, state_dir=options.get("state_dir")
    )


class _NursedServer(ServerProcess):
    """A server that a nursery runs."""

    def kill(self) -> None:
        """Kill the server and wait for its end, not only for that of its stand-in.

        Its output is closed a moment before its port, which the next server may want.
        """
        super().kill()
        while self._process is not None and _sent(self._process.pid, 0):
            time.sleep(0.001)


def stdio_config(**options: Unpack[FaultOptions]) -> dict[str, object]:
    """Return the `mcp.json` entry of a fault server, like its namesake in `plait.testing`."""
    arguments = testing.stdio_config(**options)["args"]
    assert isinstance(arguments, list)
    return entry(*map(str, arguments))  # pyright: ignore[reportUnknownArgumentType]


def send_signal(process: int, number: signal.Signals) -> None:
    """Send a signal to the program for which a process stands, like `os.kill`.

    After a kill the process itself has ended too: what is sent next is sent to nobody.
    """
    if not _sent(process, number):
        raise ProcessLookupError(process)
    if number == signal.SIGKILL:
        with contextlib.suppress(psutil.NoSuchProcess):
            stand_in = psutil.Process(process)
            while stand_in.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.001)


def _sent(process: int, number: int) -> bool:
    """Send a signal, or nothing with 0; return whether the program was still there."""
    request = marshal.dumps((process, int(number)))
    with socket.socket(socket.AF_UNIX) as nursery:
        nursery.connect(_address(()))
        nursery.sendall(len(request).to_bytes(4, "big") + request)
        return bool(nursery.recv(4))


@functools.cache
def _address(slow: tuple[str, ...]) -> str:
    """Start a nursery and return its address; it ends with this process, however that ends."""
    folder = tempfile.mkdtemp(prefix="plait-nursery-")
    address = str(Path(folder, "socket"))
    started = subprocess.Popen(
        [sys.executable, str(_HERE / "fork.py"), address, *slow],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    _nurseries.add(started.pid)
    owner = os.getpid()

    def stop() -> None:
        if os.getpid() == owner:
            started.communicate()
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    assert started.stdout is not None
    assert started.stdout.readline() == b"ready\n"
    return address
