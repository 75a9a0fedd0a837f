"""The servers of a soak, and a fault in one of them every second."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from plait.testing import ServerProcess
from tests.soak.records import Outage

PROGRAM = str(Path(__file__).with_name("server.py"))

PORTS: dict[str, tuple[str, str]] = {
    "http": ("http", "modern"),
    "http_legacy": ("http", "legacy"),
    "httpx2": ("http", "modern"),
    "httpx2_legacy": ("http", "legacy"),
    "sse": ("sse", "legacy"),
    "websocket": ("websocket", "legacy"),
}
"""The servers on a port, which all modes share: transport and era."""

PROCESS_FAULTS = ("kill", "restart", "hang", "outage")
CALL_FAULTS: dict[str, tuple[str, ...]] = {
    "stdio": ("garbage", "bad-frame", "noise", "slow", "stderr", "die-before", "die-after"),
    "http": ("garbage", "bad-frame", "wrong-id", "cut", "slow", "401", "429", "500"),
    "sse": ("bad-frame", "noise", "cut", "slow", "die-after", "401", "500"),
    "websocket": ("bad-frame", "noise", "cut", "slow", "die-before"),
}
_HTTP_DEATHS = ("die-before", "die-after")
_FAULT_SECONDS = 0.4
_HANG_SECONDS = (1.0, 3.0)
_OUTAGE_SECONDS = (2.0, 6.0)


@dataclass
class Storm:
    """Starts the servers on ports, and breaks all of them, one a second."""

    folder: Path
    chance: random.Random
    outages: list[Outage] = field(default_factory=list[Outage])
    faults: Counter[str] = field(default_factory=Counter[str])
    pids: dict[str, Callable[[], int | None]] = field(
        default_factory=dict[str, Callable[[], "int | None"]]
    )
    """How to find the process of each server on stdio."""
    _servers: dict[str, ServerProcess] = field(default_factory=dict[str, ServerProcess])
    _stack: ExitStack = field(default_factory=ExitStack)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _busy: set[str] = field(default_factory=set[str])

    def __enter__(self) -> Self:
        for name, (transport, era) in PORTS.items():
            command = [sys.executable, PROGRAM, transport, "--era", era, "--port", "{port}"]
            server = ServerProcess([*command, *self._files(name)])
            self._servers[name] = self._stack.enter_context(server)
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def _files(self, name: str) -> list[str]:
        return ["--ledger", str(self.ledger), "--control", str(self.folder / f"{name}.fault")]

    @property
    def ledger(self) -> Path:
        """The file into which every server writes what ran."""
        return self.folder / "ledger"

    def config(self, mode: str, limits: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the configuration of all servers but the one in the process."""
        servers: dict[str, dict[str, Any]] = {
            name: {
                "url": server.url,
                "protocol": "legacy" if era == "legacy" else "2026-07-28",
                **({"transport": "sse"} if transport == "sse" else {}),
                # With a function for headers, httpx2 posts the requests.
                **({"headers": dict} if name.startswith("httpx2") else {}),
                **limits,
            }
            for (name, server), (transport, era) in zip(
                self._servers.items(), PORTS.values(), strict=True
            )
        }
        arguments = [PROGRAM, "stdio", "--era", "legacy", *self._files(f"stdio-{mode}")]
        servers["stdio"] = {"command": sys.executable, "args": arguments, **limits}
        return servers

    async def blow(self, seconds: float) -> None:
        """Cause a fault every second, then let every server come back."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            targets = [*self._servers, *self.pids]
            name = self.chance.choice([one for one in targets if one not in self._busy])
            task = asyncio.create_task(self._break(name))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await asyncio.sleep(1)
        await asyncio.gather(*self._tasks)

    async def _break(self, name: str) -> None:
        is_stdio = name in self.pids
        kind = "stdio" if is_stdio else PORTS[name][0]
        possible = [*CALL_FAULTS[kind], *PROCESS_FAULTS, *(_HTTP_DEATHS if kind == "http" else ())]
        if is_stdio:
            possible = [one for one in possible if one not in {"restart", "outage"}]
            possible.append("close-stdout")
        fault = self.chance.choice(possible)
        self.faults[f"{kind} {fault}"] += 1
        self._busy.add(name)
        began = time.monotonic()
        try:
            if fault in PROCESS_FAULTS:
                await self._break_process(name, fault)
            else:
                await self._break_calls(name, fault)
        finally:
            self._busy.discard(name)
            server = name.partition(":")[0]
            self.outages.append(Outage(server, began, time.monotonic()))

    async def _break_calls(self, name: str, fault: str) -> None:
        control = self.folder / f"{name.replace(':', '-')}.fault"
        await asyncio.to_thread(control.write_text, f"{fault} {time.time() + _FAULT_SECONDS}")
        await asyncio.sleep(_FAULT_SECONDS)
        server = self._servers.get(name)
        if server is not None and not server.is_running:
            await asyncio.to_thread(server.start)

    async def _break_process(self, name: str, fault: str) -> None:
        server = self._servers.get(name)
        pid = self.pids[name]() if server is None else server.pid
        if pid is None:
            return
        if fault == "hang":
            await self._hang(pid)
        elif server is None:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        else:
            await asyncio.to_thread(server.kill)
            if fault == "outage":
                await asyncio.sleep(self.chance.uniform(*_OUTAGE_SECONDS))
            await asyncio.to_thread(server.start)

    async def _hang(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(self.chance.uniform(*_HANG_SECONDS))
            os.kill(pid, signal.SIGCONT)
