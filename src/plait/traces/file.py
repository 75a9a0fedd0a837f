"""Trace files: written while a run proceeds, and read afterwards."""

from __future__ import annotations

import logging
import mmap
import os
import re
from dataclasses import replace
from pathlib import Path
from threading import Lock

from plait._support.files import make_private
from plait.errors import TraceFormatError
from plait.traces.codec import LaterVersionError, event_from_line
from plait.traces.events import RunStarted, ToolDefined, TraceEvent
from plait.traces.trace import Trace

logger = logging.getLogger("plait.traces")

_DEFINITION = re.compile(rb'"event":"tool","run":"[^"]*".{0,200}?"digest":"([0-9a-f]{16})"')

MAX_SEARCHED_BYTES = 100_000_000
"""Definitions are not looked for in larger files, but stored again: it would take seconds."""


class TraceFile:
    """Appends complete lines; each one is passed to the system when `write` returns.

    So a run that is killed leaves a trace of everything before. Several runs and processes may
    write to one file. Only its owner may read the file, which contains what the agent read.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the file, and create it and its folder if needed."""
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        self._file: int | None = os.open(self.path, flags, 0o600)
        try:
            make_private(self._file)
        except OSError as error:
            logger.warning("others may read the trace %s: %s", self.path, error.strerror)
        self._lock = Lock()
        size = os.fstat(self._file).st_size
        self._incomplete = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        """Whether the last line is incomplete, because its writer was killed."""
        self.definitions = set[str]()
        """The digests of the definitions of tools that the file has."""
        if 0 < size <= MAX_SEARCHED_BYTES:
            with mmap.mmap(self._file, size, access=mmap.ACCESS_READ) as data:
                self.definitions |= {one[1].decode() for one in _DEFINITION.finditer(data)}
        self._has_warned = False

    def has_run(self, run: str) -> bool:
        """Check whether the file has the start of a run."""
        with self._lock:
            if self._file is None or not os.fstat(self._file).st_size:
                return False
            with mmap.mmap(self._file, 0, access=mmap.ACCESS_READ) as data:
                return data.find(f'"event":"run","run":"{run}"'.encode()) >= 0

    def write(self, line: bytes) -> None:
        """Append a line; a failure is logged once, and raises nothing."""
        with self._lock:
            if self._file is None:
                return
            data = b"\n" + line if self._incomplete else line
            try:
                # In one write, so that lines of several writers do not mix.
                while data:
                    data = data[os.write(self._file, data) :]
                self._incomplete = False
            except OSError as error:
                self._incomplete = True
                if not self._has_warned:
                    self._has_warned = True
                    logger.warning("the trace %s cannot be written: %s", self.path, error.strerror)

    def close(self) -> None:
        """Close the file; later writes are ignored."""
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None


def read_traces(path: str | Path) -> list[Trace]:
    """Read all runs of a file, in the order of their starts.

    An incomplete line of a killed run is skipped, and counted in `damaged`.

    Raises:
        TraceFormatError: No line is an event, or one has a later version.
        OSError: The file cannot be read.
    """
    return traces_from_bytes(Path(path).read_bytes(), name=str(path))


def traces_from_bytes(data: bytes, *, name: str = "trace") -> list[Trace]:
    """Read all runs from the content of a file."""
    runs: dict[str, list[TraceEvent]] = {}
    damaged = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            event = event_from_line(line)
        except LaterVersionError as error:
            raise TraceFormatError(f"{name}, line {number}: {error}") from error
        except ValueError:
            damaged += 1
            continue
        if event is not None:
            runs.setdefault(event.run, []).append(event)
    if not runs:
        raise TraceFormatError(f"{name}: no line is an event of a trace")
    every = (event for events in runs.values() for event in events)
    defined = {event.digest: event for event in every if isinstance(event, ToolDefined)}
    traces: dict[str, Trace] = {}
    for run, events in runs.items():
        for place, event in enumerate(events):
            # The start of a run leaves out the messages that the file has in an earlier run.
            if isinstance(event, RunStarted) and event.omitted:
                earlier = traces.get(event.continues or "")
                before = () if earlier is None else tuple(earlier.conversation)
                if len(before) == event.omitted:
                    whole = (*before, *event.messages)
                    events[place] = replace(event, messages=whole, omitted=None)
        traces[run] = Trace(
            run=run, events=tuple(events), damaged=damaged, shared_definitions=defined
        )
    return list(traces.values())


def read_trace(path: str | Path, run: str | None = None) -> Trace:
    """Read one run: the last one, or the one whose id starts with `run`.

    Raises:
        TraceFormatError: The file is not a trace, or has no such run, or several.
        OSError: The file cannot be read.
    """
    traces = read_traces(path)
    if run is None:
        return traces[-1]
    matches = [trace for trace in traces if trace.run.startswith(run)]
    if len(matches) != 1:
        known = ", ".join(trace.run[:8] for trace in traces)
        count = "no run" if not matches else f"{len(matches)} runs"
        raise TraceFormatError(f"{path}: {count} with an id like {run!r}; there are: {known}")
    return matches[0]
