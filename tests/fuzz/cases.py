"""One case: frames that a server sends before its true answer, and what may come of it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import logging
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from plait import PlaitError, Toolbox
from plait.testing import ServerProcess

PROGRAM = str(Path(__file__).parents[1] / "soak" / "server.py")
CORPUS = Path(__file__).parents[1] / "data" / "fuzz"
"""Cases that have found something; `make test` runs them."""

TARGETS: dict[str, tuple[str, str]] = {
    f"{transport} {era}": (transport, era)
    for transport in ("stdio", "http", "sse", "websocket")
    for era in ("modern", "legacy")
}
TIMEOUT_SECONDS = 5.0
_SLOW_SECONDS = 4.5
"""The true answer follows at once; a server that wants to be called again is called ten times."""


@dataclass(frozen=True, slots=True)
class Case:
    """What a server sends in answer to one request."""

    server: str
    target: str
    """`call` or `list`."""
    frames: list[str]
    """In base64, with `$ID` for the id of the request."""
    form: str = "events"
    """Over HTTP: `events`, or the first frame as a body in `json`."""

    @classmethod
    def of(cls, server: str, target: str, frames: Sequence[bytes], form: str) -> Case:
        """Make a case of raw frames."""
        return cls(server, target, [base64.b64encode(one).decode() for one in frames], form)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by which the server learns what to send."""
        return {"frames": self.frames, "form": self.form, "target": self.target}

    def save(self, folder: Path = CORPUS) -> Path:
        """Write the case to the corpus."""
        text = json.dumps(asdict(self), indent=1)
        path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
        return path


def corpus() -> list[Case]:
    """Read the cases that have found something."""
    return [Case(**json.loads(path.read_text())) for path in sorted(CORPUS.glob("*.json"))]


class _Loud(logging.Handler):
    """Collects what the library logs with a traceback."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.tracebacks: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.tracebacks.append(f"{record.name}: {record.getMessage()}: {record.exc_info[1]!r}")


class Bench:
    """A client with a server for every target."""

    def __init__(self, box: Toolbox, loud: _Loud) -> None:
        self._box = box
        self._loud = loud

    async def run(self, case: Case) -> list[str]:
        """Run a case; return what is wrong with its outcome."""
        self._loud.tracebacks.clear()
        problems: list[str] = []
        began = time.monotonic()
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS + 5):
                await self._box.call(case.server, "raw", case.arguments)
                if case.target == "list":
                    await self._box.tools(case.server, refresh=True)
        except PlaitError:
            pass
        except Exception as error:  # noqa: BLE001  # boundary: this is what is looked for
            problems.append(f"raised {error!r}")
        took = time.monotonic() - began
        if took > _SLOW_SECONDS:
            problems.append(f"took {took:.1f} s")
        problems += [f"logged {text}" for text in self._loud.tracebacks]
        with contextlib.suppress(PlaitError):
            # What the case left behind may end one call, never a second.
            await self._box.call(case.server, "read", {"question": "first"})
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS + 5):
                answer = (await self._box.call(case.server, "read", {"question": "after"})).text
            if answer != "read:after":
                problems.append(f"the next call got {answer!r}")
        except Exception as error:  # noqa: BLE001  # boundary: this is what is looked for
            problems.append(f"the next call raised {error!r}")
        return problems


@asynccontextmanager
async def bench() -> AsyncGenerator[Bench]:
    """Start a server for every target, and a client for them."""
    loud = _Loud()
    logger = logging.getLogger()
    logger.addHandler(loud)
    with ExitStack() as stack:
        stack.callback(logger.removeHandler, loud)
        folder = stack.enter_context(TemporaryDirectory(prefix="plait-fuzz-"))
        files = ["--ledger", f"{folder}/ledger", "--control", f"{folder}/fault"]
        limits = {"timeout": TIMEOUT_SECONDS, "connect_timeout": 10}
        servers: dict[str, dict[str, Any]] = {}
        for name, (transport, era) in TARGETS.items():
            command = [sys.executable, PROGRAM, transport, "--era", era, *files]
            protocol = "2026-07-28" if era == "modern" else "legacy"
            if transport == "stdio":
                servers[name] = {"command": command[0], "args": command[1:]}
            else:
                process = stack.enter_context(ServerProcess([*command, "--port", "{port}"]))
                servers[name] = {"url": process.url}
                if transport == "sse":
                    servers[name]["transport"] = "sse"
            servers[name] |= {"protocol": protocol, **limits}
        async with Toolbox(servers, validate_arguments=False) as box:
            await box.tools()
            yield Bench(box, loud)
