"""The recorded MCP messages of the calls of a run, found on tapes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from plait.client.transports.tape import Recorded, request_key
from plait.traces.trace import Trace

_TAPE_START = b'{"tape"'


def is_tape(path: Path) -> bool:
    """Return whether a file begins as a tape does."""
    try:
        with path.open("rb") as file:
            return file.read(len(_TAPE_START)) == _TAPE_START
    except OSError:
        return False


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
