"""Reads trace files, including those of runs that were killed."""

from __future__ import annotations

from pathlib import Path

from plait.errors import TraceFormatError
from plait.traces.codec import LaterVersionError, event_from_line
from plait.traces.events import TraceEvent
from plait.traces.trace import Trace


def read_traces(path: str | Path) -> list[Trace]:
    """Read all runs of a file, in the order of their starts.

    An incomplete line of a killed run is skipped, and counted in `damaged`.

    Raises:
        TraceFormatError: No line is an event, or one has a later version.
        OSError: The file cannot be read.
    """
    return traces_from_bytes(Path(path).read_bytes(), name=str(path))


def traces_from_bytes(data: bytes, *, name: str = "trace") -> list[Trace]:
    """Read all runs from the content of a file.

    Raises:
        TraceFormatError: No line is an event, or one has a later version.
    """
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
    return [Trace(run=run, events=tuple(events), damaged=damaged) for run, events in runs.items()]


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
