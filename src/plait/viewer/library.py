"""The trace files that the viewer shows; nothing else on the disk can be reached through it."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from cachetools import LRUCache

from plait.client.transports.tape import Recorded, read_tape, request_key
from plait.errors import ConfigError, TraceFormatError
from plait.html.runs import RunRow, run_row
from plait.traces.file import read_traces
from plait.traces.trace import Trace

MAX_FILE_BYTES = 256_000_000
"""The size of the largest file that is read; its events need several times that in memory."""

MAX_KEPT_FILES = 4
"""Files whose events are kept in memory: pages about one or two are open at once."""

_TAPE_START = b'{"tape"'

Stamp = tuple[int, int]
"""The size of a file and the time of its last change."""


@dataclass(frozen=True, slots=True)
class TracePath:
    """A listed file, and the part of addresses that stands for it."""

    path: Path
    key: str
    name: str
    """As the user named it."""

    @classmethod
    def from_path(cls, path: Path) -> TracePath:
        """Describe a file."""
        # Not `path.resolve()`, which refuses a link to itself.
        key = hashlib.sha256(os.path.realpath(path).encode()).hexdigest()[:16]
        return cls(path, key, str(path))

    @property
    def stamp(self) -> Stamp | None:
        """The state of the file; `None` if it is gone, or no file: opening a FIFO would wait."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return (found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


_NEVER_TRACES = frozenset({".git", ".venv", "__pycache__", "node_modules", "site-packages"})
"""Folders with so many files that looking for traces in them would take seconds."""
_PLAIN_ID = re.compile(r"[0-9A-Za-z_-]{1,64}", re.ASCII)


def run_key(trace: Trace) -> str:
    """Return the part of addresses that stands for a run: its id, unless that is unusual."""
    if _PLAIN_ID.fullmatch(trace.run):
        return trace.run
    digest = hashlib.sha256(trace.run.encode("utf-8", "surrogatepass")).hexdigest()
    return f"x{digest[:16]}"


class TraceLibrary:
    """Finds and reads runs in files and folders; a file is read again when it has changed."""

    def __init__(
        self, paths: Sequence[Path], unlisted: Callable[[], Iterable[Path]] = tuple
    ) -> None:
        """Take what is listed, and a function for files that only other pages link to."""
        self.paths = paths
        self._unlisted = unlisted
        self._lock = Lock()
        self._rows: dict[str, tuple[Stamp, list[RunRow]]] = {}
        self._traces: LRUCache[str, tuple[Stamp, list[Trace]]] = LRUCache(MAX_KEPT_FILES)

    def files(self) -> list[TracePath]:
        """List the files now; of folders the `*.jsonl` in them, without links that lead out."""
        found = {
            one.key: one for path in self.paths for one in map(TracePath.from_path, _files(path))
        }
        return list(found.values())

    def version(self) -> str:
        """Return a text that changes whenever a file does."""
        return "\n".join(f"{one.key} {one.stamp}" for one in self.files())

    def rows(self) -> list[RunRow]:
        """Sum up all runs, the newest first; files that are not traces are skipped."""
        rows: list[RunRow] = []
        for file in self.files():
            stamp = file.stamp
            if stamp is None:
                continue
            if (known := self._rows.get(file.key)) is None or known[0] != stamp:
                runs = [(run_key(trace), trace) for trace in self._read(file, stamp)]
                found = [
                    replace(
                        run_row(trace, href=f"/runs/{file.key}/{run}", file=file.name),
                        run=f"{file.key}.{run}",
                    )
                    for run, trace in runs
                ]
                known = self._rows[file.key] = (stamp, found)
            rows += known[1]
        return sorted(rows, key=lambda row: row.began, reverse=True)

    def too_large(self) -> list[str]:
        """Return the names of files that are not read because of their size."""
        return [file.name for file in self.files() if _is_too_large(file.stamp)]

    def trace(self, key: str, run: str) -> Trace | None:
        """Return a run of a listed file."""
        files = (*self.files(), *map(TracePath.from_path, self._unlisted()))
        file = next((one for one in files if one.key == key), None)
        stamp = None if file is None else file.stamp
        if file is None or stamp is None:
            return None
        return next((one for one in self._read(file, stamp) if run_key(one) == run), None)

    def wire(self, key: str, trace: Trace) -> dict[str, list[dict[str, Any]]]:
        """Return the recorded messages of the calls of a run, from tapes beside its file."""
        files = self.files()
        folder = next((one.path.parent for one in files if one.key == key), None)
        beside = [one for one in files if one.path.parent == folder]
        recorded: list[Recorded] = []
        for one in beside:
            if one.stamp is None or _is_too_large(one.stamp):
                continue
            with suppress(ConfigError, OSError):  # damaged, or gone
                with one.path.open("rb") as start:
                    is_tape = start.read(len(_TAPE_START)) == _TAPE_START
                recorded += read_tape(one.path) if is_tape else ()
        return wire_of(trace, recorded) if recorded else {}

    def _read(self, file: TracePath, stamp: Stamp) -> list[Trace]:
        with self._lock:
            known = self._traces.get(file.key)
            if known is not None and known[0] == stamp:
                return known[1]
            try:
                traces = [] if _is_too_large(stamp) else read_traces(file.path)
            except (TraceFormatError, OSError):  # not a trace, or gone
                traces = []
            self._traces[file.key] = (stamp, traces)
            return traces


def _is_too_large(stamp: Stamp | None) -> bool:
    return stamp is not None and stamp[0] > MAX_FILE_BYTES


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    root = path.resolve()
    found: list[Path] = []
    for folder, folders, names in os.walk(path):
        folders[:] = [name for name in folders if name not in _NEVER_TRACES]
        found += [Path(folder, name) for name in names if name.endswith(".jsonl")]
    for file in sorted(found):
        if file.is_file() and file.resolve().is_relative_to(root):
            yield file


def wire_of(trace: Trace, recorded: Iterable[Recorded]) -> dict[str, list[dict[str, Any]]]:
    """Find the messages of each call: the next of its server, tool and arguments."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in recorded:
        found[one.key].append(one.to_line())
    wire: dict[str, list[dict[str, Any]]] = {}
    for call, _ in trace.calls:
        params = {"name": call.tool or call.name, "arguments": dict(call.arguments)}
        messages = found.get(request_key(call.server or "", "tools/call", params))
        if messages:
            wire[call.call_id] = [messages.pop(0)]
    return wire
