"""The processes of a run: workers that measure, and the HTTP and WebSocket server."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, AnyStr

from benchmarks.compare.scenarios import SERVER


class WorkerError(Exception):
    """A worker ended or did not answer in time."""


def pin_clients() -> int | None:
    """Pin this process and the workers it starts to one core; return another for the servers.

    Returns `None`, and pins nothing, where there is only one core or no way to pin.
    """
    if sys.platform != "linux":
        return None
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        return None
    os.sched_setaffinity(0, {cores[0]})
    return cores[1]


class Worker:
    """A worker process and the line protocol with it."""

    def __init__(
        self, command: Sequence[str], directory: Path, log: Path, env: Mapping[str, str]
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log.open("ab")
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            list(command),
            cwd=directory,
            env={**os.environ, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._rest = b""

    def ask(self, request: Mapping[str, Any], timeout_seconds: float) -> dict[str, Any]:
        """Send a request and wait for the reply.

        Raises:
            WorkerError: It ended or did not answer in time; it cannot be used any more.
        """
        stdin = _pipe(self._process.stdin)
        try:
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
        except OSError as error:
            raise WorkerError("the worker ended") from error
        return json.loads(self._read_line(timeout_seconds))

    def _read_line(self, timeout_seconds: float) -> bytes:
        stdout = _pipe(self._process.stdout)
        end = time.monotonic() + timeout_seconds
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._rest:
                if not selector.select(max(0.0, end - time.monotonic())):
                    raise WorkerError(f"no answer in {timeout_seconds:g} s")
                chunk = os.read(stdout.fileno(), 1 << 16)
                if not chunk:
                    raise WorkerError("the worker ended")
                self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def close(self, timeout_seconds: float = 15) -> None:
        """End the process: let it close its connections, else kill it."""
        _pipe(self._process.stdin).close()
        try:
            self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _pipe(self._process.stdout).close()
        self._log.close()


@contextmanager
def net_server(core: int | None) -> Generator[int]:
    """Run the HTTP and WebSocket server, and return its port."""
    command = [sys.executable, "-ES", str(SERVER), "net"]
    if core is not None:
        command += ["--core", str(core)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(_pipe(process.stdout).readline())
        finally:
            process.terminate()


def _pipe(pipe: IO[AnyStr] | None) -> IO[AnyStr]:
    assert pipe is not None
    return pipe
