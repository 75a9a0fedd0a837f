"""MCP servers as child processes of a test: launch, kill, restart, suspend."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self, Unpack
from urllib.parse import urlsplit

import anyio

from plait._support.gather import resolve
from plait.testing.faults.fault_options import FaultOptions, Transport, flags_from_options
from plait.testing.ports import free_port
from plait.testing.state import StateDir

READY = r"listening on (?P<url>\S+)"
"""The line that servers of this package print when clients may connect."""

_START_SECONDS = 30.0
_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.01


class ServerProcess:
    """A server program in a process group of its own, with its output kept in `log`.

    In the command, the environment and the URL, `{port}` and `{state_dir}` stand for the port and
    the folder of durable state. With port 0 the program picks a port and announces its URL; with
    `url`, a free port is picked here. A restart uses the same port again.

    Entering the context starts it, leaving kills it. All methods block (a start for about a
    second); from a coroutine that must not be held up, call them in a thread.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        port: int = 0,
        url: str | None = None,
        ready: str = READY,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        state_dir: str | Path | None = None,
    ) -> None:
        self.port = free_port() if url is not None and not port else port
        self._command = tuple(command)
        self._url = url
        self._ready = re.compile(ready)
        self._env = dict(env or {})
        self._cwd = cwd
        self._state = None if state_dir is None else StateDir(state_dir)
        self._owns_state = state_dir is None
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._settled = threading.Event()
        self._output: list[str] = []

    @property
    def command(self) -> tuple[str, ...]:
        """The command, with `{port}` and `{state_dir}` as placeholders."""
        return self._command

    @property
    def url(self) -> str:
        """The URL for clients; known after the first start."""
        if self._url is None:
            raise RuntimeError("the server has not been started, so its URL is not known")
        return self._filled(self._url)

    @property
    def state(self) -> StateDir:
        """The folder of the server's durable state; a temporary one by default."""
        if self._state is None:
            self._state = StateDir(tempfile.mkdtemp(prefix="plait-state-"))
        return self._state

    @property
    def pid(self) -> int:
        """The process id of the current, or else the last, process."""
        return self._started().pid

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How the last process ended (negative: the signal); `None` while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def log(self) -> str:
        """Everything the server wrote to stderr and stdout, over all its starts."""
        return "".join(self._output)

    def start(self) -> Self:
        """Start the server and wait until it listens.

        Raises:
            RuntimeError: It exited, or was not ready in time; the text includes its log.
        """
        self.launch()
        self.wait_until_ready()
        return self

    def launch(self) -> None:
        """Start the server without waiting; `wait_until_ready` does that."""
        if self.is_running:
            raise RuntimeError("the server is running already")
        self._release()
        self._settled = threading.Event()
        self._process = subprocess.Popen(
            [self._filled(part) for part in self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **{name: self._filled(text) for name, text in self._env.items()}},
            cwd=self._cwd,
            start_new_session=True,
        )
        self._reader = threading.Thread(
            target=self._read, args=(self._process, self._settled), daemon=True
        )
        self._reader.start()

    def wait_until_ready(self, timeout_seconds: float = _START_SECONDS) -> None:
        """Wait until the server listens.

        Raises:
            RuntimeError: It exited, or was not ready in time.
        """
        settled = self._settled.wait(timeout_seconds)
        if settled and self.is_running:
            return
        self.kill()
        what = (
            f"ended with {self.exit_code}" if settled else f"is not ready in {timeout_seconds:g} s"
        )
        raise RuntimeError(f"the server {what}: {' '.join(self._command)}\n{self.log}")

    def kill(self) -> None:
        """Kill the server and its children with SIGKILL, and wait for their end."""
        self._signal(signal.SIGKILL)
        self._release()

    def stop(self) -> None:
        """Stop the server with SIGTERM; kill it after a timeout."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        if self._process is not None:
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
        self._release()

    def restart(self) -> Self:
        """Kill the server if it runs, and start it on the same port."""
        self.kill()
        return self.start()

    def suspend(self) -> None:
        """Suspend the process: its sockets stay open, and nothing is answered."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a suspended process."""
        self._signal(signal.SIGCONT)

    def wait(self, timeout_seconds: float = _STOP_SECONDS) -> int:
        """Wait until the process exits, and return its exit code.

        Raises:
            subprocess.TimeoutExpired: It still runs.
        """
        return self._started().wait(timeout_seconds)

    def close(self) -> None:
        """Kill the server, and remove its temporary state folder."""
        self.kill()
        if self._owns_state and self._state is not None:
            shutil.rmtree(self._state.path, ignore_errors=True)
            self._state = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the server has not been started")
        return self._process

    def _filled(self, text: str) -> str:
        text = text.replace("{port}", str(self.port))
        return text.replace("{state_dir}", str(self.state.path)) if "{state_dir}" in text else text

    def _signal(self, number: signal.Signals) -> None:
        # The group may outlive its leader, so signal it even if the leader is dead; its id is not
        # reused while it has members.
        if self._process is not None:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                return

    def _release(self) -> None:
        """Reap the process and close its pipes."""
        if self._process is None:
            return
        self._process.wait(_STOP_SECONDS)
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._reader is not None:
            self._reader.join(_STOP_SECONDS)

    def _read(self, process: subprocess.Popen[bytes], settled: threading.Event) -> None:
        if process.stdout is None:
            return
        with process.stdout:
            for raw in process.stdout:
                line = raw.decode(errors="replace")
                self._output.append(line)
                if not settled.is_set() and (match := self._ready.search(line)):
                    url = match.groupdict().get("url")
                    if self._url is None and url is not None:
                        self.port = urlsplit(url).port or self.port
                        self._url = url.replace(f":{self.port}", ":{port}", 1)
                    settled.set()
        process.wait()
        settled.set()


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


@contextmanager
def running(*servers: ServerProcess) -> Generator[tuple[ServerProcess, ...]]:
    """Run several servers while the context is open; they start concurrently."""
    with ExitStack() as stack:
        for server in servers:
            stack.callback(server.close)
            server.launch()
        for server in servers:
            server.wait_until_ready()
        yield servers


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]], *, timeout_seconds: float = 5.0
) -> None:
    """Poll a condition every few milliseconds, and return as soon as it is true.

    Raises:
        TimeoutError: It was not true in time.
    """
    with anyio.fail_after(timeout_seconds):
        while True:
            if await resolve(condition()):
                return
            await anyio.sleep(_POLL_SECONDS)
