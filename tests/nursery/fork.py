"""A process that has imported what is slow, and forks to run one program after another.

Programs come over a socket from their stand-ins. A byte from a stand-in is a signal for its
program, the end of the stand-in is the end of the program, and the other way round. Others may
send a signal to the program behind a stand-in, too.
"""

from __future__ import annotations

import gc
import importlib
import io
import marshal
import os
import runpy
import selectors
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

SLOW = (
    *("anyio._backends._asyncio", "httpcore2", "jsonschema", "mcp.server", "plait.cli.session"),
    *("plait.cli.diagnosis", "plait.client.config.read", "plait.client.toolbox"),
    *(
        "plait.reasoning.reasoner",
        "plait.reasoning.storage.sql",
        "plait.testing.faults.fault_server",
    ),
    *("plait.testing.serve_transports", "plait.testing.server", "uvicorn", "websockets"),
)


class Program(NamedTuple):
    """What a stand-in stands for."""

    stand_in: int
    arguments: list[str]
    folder: str
    environment: dict[str, str]
    ignored: list[int]
    streams: list[int]


def received(sender: socket.socket) -> tuple[Any, list[int]] | None:
    """Read what was sent, with its streams; `None` when the sender ended before it said all."""
    body, streams, _, _ = socket.recv_fds(sender, 65536, 3)
    while len(body) < 4 or len(body) < 4 + int.from_bytes(body[:4], "big"):
        more = sender.recv(65536)
        if not more:
            return None
        body += more
    return marshal.loads(body[4:]), streams


def become(program: Program) -> None:
    """Run a program in this process as Python would run it by itself."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in program.ignored:
        signal.signal(number, signal.SIG_IGN)
    os.chdir(program.folder)
    os.environ.clear()
    os.environ.update(program.environment)
    time.tzset()
    for standard, stream in enumerate(program.streams):
        os.dup2(stream, standard)
        os.close(stream)
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout = sys.__stdout__ = _writer(1)
    sys.stderr = sys.__stderr__ = _writer(2)
    name, *arguments = program.arguments
    if name == "-m":
        name, *arguments = arguments
        sys.path[0] = program.folder
        sys.argv = [name, *arguments]
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(name).resolve().parent)
        sys.argv = [name, *arguments]
        runpy.run_path(name, run_name="__main__")


def _writer(stream: int) -> io.TextIOWrapper:
    file = io.FileIO(stream, "w", closefd=False)
    direct = stream == 2 or bool(os.environ.get("PYTHONUNBUFFERED"))
    errors = "backslashreplace" if stream == 2 else "strict"
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        errors=errors,
        line_buffering=direct or file.isatty(),
        write_through=direct,
    )


class Nursery:
    """The programs that run, with their stand-ins."""

    def __init__(self, address: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._stand_ins: dict[int, socket.socket] = {}
        self._programs: dict[int, int] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen(128)
        self._woken, waker = socket.socketpair()
        for end in (self._woken, waker):
            end.setblocking(False)
        self._waker = waker
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        for source in (self._listener, self._woken, sys.stdin):
            self._selector.register(source, selectors.EVENT_READ)

    def serve(self) -> Program | None:
        """Fork for each program; return one in its own process, and nothing at the end."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    self._end()
                    return None
                if key.fileobj is self._woken:
                    self._reap()
                elif key.fileobj is self._listener:
                    if program := self._take():
                        return program
                else:
                    self._heed(key.data)

    def _take(self) -> Program | None:
        """Take a program or a signal for one; return the program in the process that it gets."""
        sender, _ = self._listener.accept()
        if (said := received(sender)) is None:
            sender.close()
            return None
        body, streams = said
        if not streams:
            with sender:
                stand_in, number = body
                child = self._programs.get(stand_in)
                if child in self._stand_ins:
                    os.kill(child, number)
                    sender.sendall(b"sent")
            return None
        program = Program._make((*body, streams))
        if (child := os.fork()) == 0:
            self._forget()
            sender.close()
            return program
        for stream in streams:
            os.close(stream)
        self._stand_ins[child] = sender
        self._programs[program.stand_in] = child
        self._selector.register(sender, selectors.EVENT_READ, child)
        return None

    def _heed(self, child: int) -> None:
        """Pass signals on; a stand-in that is gone was killed."""
        if (stand_in := self._stand_ins.get(child)) is None:
            return
        try:
            numbers = stand_in.recv(64)
        except ConnectionError:
            numbers = b""
        for number in numbers:
            os.kill(child, number)
        if not numbers:
            self._selector.unregister(stand_in)
            _kill_group(child)

    def _reap(self) -> None:
        self._woken.recv(4096)
        for child, stand_in in list(self._stand_ins.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            if not ended:
                continue
            del self._stand_ins[child]
            if stand_in in self._selector.get_map():
                self._selector.unregister(stand_in)
            with stand_in:
                try:
                    code = os.waitstatus_to_exitcode(status)
                    stand_in.sendall(code.to_bytes(4, "big", signed=True))
                except ConnectionError:
                    pass

    def _forget(self) -> None:
        """Close, in a program, what belongs to the nursery."""
        self._selector.close()
        for one in (self._listener, self._woken, self._waker, *self._stand_ins.values()):
            one.close()

    def _end(self) -> None:
        for child in self._stand_ins:
            _kill_group(child)


def _kill_group(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(child, signal.SIGKILL)  # it has not made its group yet


def main() -> None:
    for name in (*SLOW, *sys.argv[2:]):
        importlib.import_module(name)
    nursery = Nursery(sys.argv[1])
    # What is shared with the programs stays shared: collecting garbage would write on it.
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    if program := nursery.serve():
        become(program)


if __name__ == "__main__":
    main()
