"""One outage: readers with 30 s to spend while their server is down for a while."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from plait import PlaitError, Toolbox
from plait.testing import ServerProcess

PROGRAM = str(Path(__file__).with_name("server.py"))
TRANSPORTS = (
    *("stdio modern", "stdio legacy", "http modern", "http legacy", "httpx2 modern"),
    *("httpx2 legacy", "sse legacy", "websocket legacy"),
)
SPEND_SECONDS = 30
MOST_SECONDS = 1.5
"""How long after its return the first read is answered."""


class _Program:
    """A program on stdio that ends as soon as it starts while its server is down."""

    def __init__(self, command: list[str], folder: str) -> None:
        self._down = Path(folder, "down")
        gate = f"import os, sys\nif os.path.exists({str(self._down)!r}): sys.exit(1)\n"
        start = f"{gate}os.execv(sys.argv[1], sys.argv[1:])"
        arguments = ["-S", "-c", start, *command]
        self.entry: dict[str, object] = {"command": sys.executable, "args": arguments}

    def kill(self, pid: int | None) -> None:
        self._down.touch()
        if pid is not None:
            os.kill(pid, signal.SIGKILL)

    def start(self) -> None:
        self._down.unlink()


class _Remote:
    """A server that listens on a port, which nothing does while it is down."""

    def __init__(self, server: ServerProcess, transport: str) -> None:
        self._server = server
        self.entry: dict[str, object] = {"url": server.url, "transport": transport}

    def kill(self, pid: int | None) -> None:
        del pid
        self._server.kill()

    def start(self) -> None:
        self._server.start()


@contextmanager
def _served(transport: str, era: str) -> Generator[_Program | _Remote]:
    with tempfile.TemporaryDirectory() as folder:
        files = ["--ledger", f"{folder}/ledger", "--control", f"{folder}/fault"]
        command = [sys.executable, PROGRAM, transport, "--era", era, *files]
        if transport == "stdio":
            yield _Program(command, folder)
            return
        with ServerProcess([*command, "--port", "{port}"]) as server:
            yield _Remote(server, transport)


@contextmanager
def _served_by_name(name: str) -> Generator[_Program | _Remote]:
    transport, era = name.split()
    with _served("http" if transport == "httpx2" else transport, era) as server:
        if transport == "httpx2":
            server.entry["headers"] = dict  # a function for headers, for which httpx2 is needed
        yield server


async def outage(name: str, seconds: float) -> bool:
    """Read from a server that goes away; return whether every read was answered in time."""
    answered: list[float] = []
    failed: list[str] = []
    reading: set[asyncio.Task[None]] = set()
    with _served_by_name(name) as server:
        entry = {**server.entry, "connect_timeout": SPEND_SECONDS}
        async with Toolbox({"server": entry}) as box:

            async def read(number: int) -> None:
                try:
                    await box.call("server", "read", {"question": str(number)})
                except PlaitError as error:
                    failed.append(str(error))
                else:
                    answered.append(time.monotonic())

            await read(0)
            answered.clear()
            await asyncio.to_thread(server.kill, box.status()["server"].pid)
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                reading.add(asyncio.create_task(read(len(reading))))
                await asyncio.sleep(0.07)
            await asyncio.to_thread(server.start)
            returned = time.monotonic()
            await asyncio.gather(*reading)
    first = min(answered, default=float("inf")) - returned
    print(
        f"{name}: {len(reading)} reads, {len(failed)} failed, "
        f"first answer {first:.2f} s after the return of the server",
        *failed[:2],
        flush=True,
    )
    return not failed and first < MOST_SECONDS


async def outages(seconds: float, names: list[str]) -> bool:
    """Do it on one transport after the other."""
    return all([await outage(name, seconds) for name in names])


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--over", nargs="*", choices=TRANSPORTS, default=list(TRANSPORTS))
    chosen = parser.parse_args()
    raise SystemExit(not asyncio.run(outages(chosen.seconds, chosen.over)))


if __name__ == "__main__":
    main()
