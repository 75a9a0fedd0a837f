"""A local model as a process with the HTTP API of OpenAI."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from plait.errors import BackendError, ConfigError

_START_SECONDS: Final = 180.0
"""Reading weights from a slow disk takes a while."""

_END_SECONDS: Final = 5.0


class LocalModel:
    """A model in a process of its own, which ends with this one; started when it is first used.

    It works on `at_once` requests together: four or more take far less time than one by one.
    """

    def __init__(self, path: Path, *, at_once: int = 1) -> None:
        self._path = path
        self._at_once = at_once
        self._process: subprocess.Popen[bytes] | None = None
        self._address = ""
        self._lock = threading.Lock()

    async def base_url(self) -> str:
        """Return the address of the model, and start it if it does not run.

        Raises:
            ConfigError: What it needs is not installed.
            BackendError: It did not start.
        """
        return await asyncio.to_thread(self._started)

    async def aclose(self) -> None:
        """End the process; safe to repeat."""
        await asyncio.to_thread(self._stop)

    def _started(self) -> str:
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return self._address
            if find_spec("xllamacpp") is None:
                raise ConfigError("a local model needs a package: pip install 'plait[local]'")
            command = [sys.executable, "-m", "plait.models.local_server"]
            command += [str(self._path), str(self._at_once)]
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            self._address = f"{self._first_address(process)}/v1"
            self._process = process
            return self._address

    def _first_address(self, process: subprocess.Popen[bytes]) -> str:
        late = threading.Timer(_START_SECONDS, process.kill)
        late.start()
        try:
            for line in process.stdout or ():
                if line.startswith(b"http://"):
                    return line.decode().strip()
        finally:
            late.cancel()
        process.kill()
        process.wait()
        raise BackendError(f"the local model {self._path.name} did not start", backend="local")

    def _stop(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
        if process.poll() is None:
            process.kill()
            process.wait()
