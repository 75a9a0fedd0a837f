"""What happens in `plait serve`: a trace of every call, and a file with the state for others.

The state is in a file because that needs no port and no permission: `plait serve --status` and
`plait view` of the same user read the files of all processes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from plait._support.files import write_atomically
from plait._support.redact import Redactor
from plait._support.threads import in_thread
from plait._version import __version__
from plait.client.config.secrets import secret_values

if TYPE_CHECKING:
    from plait.client.config.read import ClientConfig
    from plait.client.connections.status import Event, ServerStatus
    from plait.traces.file import TraceFile
    from plait.traces.recorder import Recorder

logger = logging.getLogger("plait.serve")

Row = dict[str, Any]

WRITE_SECONDS: Final = 0.5
"""How often the state is looked at, and written if it has changed."""
MAX_SILENT_SECONDS: Final = 60.0
"""A process that has written nothing for so long is gone; it writes three times as often."""
MAX_FEED_ROWS: Final = 100
MAX_RUN_CALLS: Final = 1000
"""Then a client gets another run in the trace: its events are kept in memory until it ends."""
MAX_TRACED_CHARS: Final = 20_000
"""How much of the text of a result is kept."""
MAX_TRACE_AGE_SECONDS: Final = 7 * 86400
MAX_TRACE_FILES: Final = 100


def state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of the traces, and of the states in its folder `running`."""
    known = os.environ if environ is None else environ
    home = Path(known.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return home / "plait" / "serve"


class Journal:
    """The traces and the state of one process; failures are logged, and end no call."""

    def __init__(self, config: ClientConfig, *, traces: bool = True) -> None:
        self.address: str | None = None
        """Where it listens; `None` on stdio."""
        self.clients: list[ClientJournal] = []
        self.feed: deque[Row] = deque(maxlen=MAX_FEED_ROWS)
        self._source = config.source
        self._since = _now()
        folder, name = state_folder(), f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
        self._state = folder / "running" / f"{name}.json"
        self._trace = folder / f"{name}.jsonl" if traces else None
        self._sink: TraceFile | None = None
        self.use(config)

    def use(self, config: ClientConfig) -> None:
        """Hide the secrets of a configuration from now on, beside those before."""
        found = {one for server in config.servers.values() for one in secret_values(server)}
        self._secrets = getattr(self, "_secrets", frozenset[str]()) | found
        self._redact = Redactor(self._secrets)

    def redact(self, text: str) -> str:
        """Hide the secrets of the configuration."""
        return self._redact(text)

    @property
    def sink(self) -> TraceFile | None:
        """The trace, which is created with the first call."""
        if self._sink is None and self._trace is not None:
            from plait.traces.file import TraceFile  # noqa: PLC0415  # not before the first call

            try:
                self._trace.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                _remove_old(self._trace.parent)
                self._sink = TraceFile(self._trace)
            except OSError as error:
                logger.warning("there will be no trace: %s", error)
                self._trace = None
        return self._sink

    async def run(self) -> None:
        """Keep the file with the state as it is, until cancelled; then remove it."""
        written, at = "", 0.0
        try:
            while True:
                state = json.dumps(self._as_row(), default=str)
                now = time.monotonic()
                if state != written or now - at > MAX_SILENT_SECONDS / 3:
                    await in_thread(self._write, state)
                    written, at = state, now
                await asyncio.sleep(WRITE_SECONDS)
        finally:
            with suppress(OSError):
                self._state.unlink(missing_ok=True)
            for client in tuple(self.clients):
                client.end()
            if self._sink is not None:
                self._sink.close()

    def _write(self, state: str) -> None:
        try:
            self._state.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(self._state, self._redact(state), mode=0o600)
        except OSError as error:
            logger.debug("the state cannot be written: %s", error)

    def _as_row(self) -> Row:
        return {
            "pid": os.getpid(),
            "plait": __version__,
            "config": self._source,
            "address": self.address,
            "since": self._since,
            "trace": None if self._sink is None else str(self._trace),
            "clients": [client.as_row() for client in self.clients],
            "feed": list(self.feed),
        }


@dataclass(slots=True, eq=False)
class ClientJournal:
    """What one client does."""

    journal: Journal
    name: str
    program: Callable[[], str]
    """The name and version that the client gave."""
    servers: Callable[[], Iterable[ServerStatus]]
    since: str = field(init=False)
    calls: int = 0
    failed: int = 0
    under_way: dict[str, str] = field(default_factory=dict[str, str])
    """The names of tools by the ids of calls."""
    _recorder: Recorder | None = None
    _began: dict[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        self.since = _now()

    def called(self, name: str, server: str, tool: str, arguments: Mapping[str, Any]) -> str:
        """Note a call before it is made, and return an id for it."""
        call_id = secrets.token_hex(6)
        self.calls += 1
        self.under_way[call_id] = f"{server}/{tool}"
        self._began[call_id] = time.monotonic()
        if (recorder := self._current()) is not None:
            recorder.tool_called(call_id, name, arguments, server=server, tool=tool)
        return call_id

    def returned(
        self, call_id: str, text: str, *, is_error: bool = False, attempts: int = 1
    ) -> None:
        """Note how a call has ended."""
        where = self.under_way.pop(call_id)
        seconds = round(time.monotonic() - self._began.pop(call_id), 6)
        self.failed += is_error
        row: Row = {"kind": "call", "what": where, "seconds": seconds, "is_error": is_error}
        if is_error:
            row["detail"] = text[:200]
        if attempts > 1:
            row["attempts"] = attempts
        self._tell(row)
        if self._recorder is not None:
            kept = text[:MAX_TRACED_CHARS]
            self._recorder.tool_returned(call_id, kept, is_error=is_error, attempts=attempts)

    def opened(self, server: str, events: Sequence[Event]) -> None:
        """Note that a server is connected; after it was lost, that it has healed."""
        lost: Event | None = None
        for event in events:
            if event.server == server and event.kind == "lost":
                lost = lost or event
            elif event.server == server and event.kind == "opened" and event is not events[-1]:
                lost = None
        if lost is None:
            return
        seconds = round((datetime.now(UTC) - lost.at).total_seconds(), 3)
        detail = self.journal.redact(lost.detail)
        self._tell({"kind": "heal", "what": server, "seconds": seconds, "detail": detail[:200]})
        if self._recorder is not None:
            self._recorder.heal(server, reason=detail or None, seconds=seconds)

    def end(self) -> None:
        """Note that the client is gone."""
        with suppress(ValueError):
            self.journal.clients.remove(self)
        if self._recorder is not None:
            self._recorder.ended()
            self._recorder = None

    def _current(self) -> Recorder | None:
        """Return the run of the trace that the next call belongs to."""
        if self._recorder is not None and self.calls % MAX_RUN_CALLS == 0 and not self._began:
            self._recorder.ended()
            self._recorder = None
        if self._recorder is None and (sink := self.journal.sink) is not None:
            from plait.traces.recorder import Recorder  # noqa: PLC0415  # as above

            self._recorder = Recorder(sink, redact=self.journal.redact)
            self._recorder.run_started(
                [],
                interface="serve",
                servers=[one.name for one in self.servers()],
                settings={"client": self.name, "program": self.program()},
            )
        return self._recorder

    def _tell(self, row: Row) -> None:
        self.journal.feed.append({"at": _now(), "client": self.name, **row})

    def as_row(self) -> Row:
        """Describe the client, and the servers as it sees them."""
        return {
            "name": self.name,
            "program": self.program(),
            "since": self.since,
            "calls": self.calls,
            "failed": self.failed,
            "run": None if self._recorder is None else self._recorder.run,
            "under_way": list(self.under_way.values()),
            "servers": [
                {
                    "name": one.name,
                    "state": one.state,
                    "transport": one.transport,
                    "protocol": one.protocol_version,
                    "tools": one.tool_count,
                    "sessions": one.sessions,
                    "pid": one.pid,
                    "error": one.last_error,
                }
                for one in self.servers()
            ],
        }


def read_states(folder: Path | None = None) -> list[Row]:
    """Return the states of all processes that run, the oldest first; those of others go."""
    found: list[Row] = []
    for file in sorted(((folder or state_folder()) / "running").glob("*.json")):
        try:
            state: Row = json.loads(file.read_text("utf-8"))
            silent = time.time() - file.stat().st_mtime
            if silent > MAX_SILENT_SECONDS or not _is_running(int(state["pid"])):
                file.unlink(missing_ok=True)
                continue
        except (OSError, ValueError, KeyError, TypeError):
            continue
        found.append(state)
    return found


def _is_running(pid: int) -> bool:
    if os.name != "posix":  # there, this would end it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is of another user
        return True
    return True


def _remove_old(folder: Path) -> None:
    """Remove traces that nobody is likely to look at any more."""
    files = sorted(folder.glob("*.jsonl"), key=lambda file: file.name, reverse=True)
    oldest = time.time() - MAX_TRACE_AGE_SECONDS
    for number, file in enumerate(files):
        with suppress(OSError):
            if number >= MAX_TRACE_FILES or file.stat().st_mtime < oldest:
                file.unlink()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
