"""Events as lines of JSON, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, cast

from plait._support.redact import HIDDEN
from plait.traces.events import KINDS, VERSION, TraceEvent, Turn
from plait.traces.messages.message import Message
from plait.traces.messages.usage import UsageMetadata

Redact = Callable[[str], str]
"""Returns a text without its secrets."""

_PROBE = "some-value"
"""What is put behind a name to find out whether it is the name of a secret."""

_MOST_NAMES = 1000
"""How many names are remembered; the arguments of tools may have any."""

_PLAIN = frozenset({"run", "id", "parent", "time", "at", "question_hash"})
"""What the recorder made itself, and holds no secret."""


def line_from_event(event: TraceEvent, cleaner: Cleaner | None = None) -> bytes:
    """Write an event as one line, its line break included; what is not known is left out."""
    told: dict[str, object] = {"v": VERSION, "event": event.kind}
    for one in fields(event):
        value: object = getattr(event, one.name)
        if value is None:
            continue
        shown = plain(value)
        if cleaner is not None and one.name not in _PLAIN:
            shown = cleaner.clean(shown, one.name)
        told[one.name] = shown
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # half of a character, which only an escape can hold
        return json.dumps(told, separators=(",", ":")).encode() + b"\n"


def event_from_line(line: bytes) -> TraceEvent | None:
    """Read one line; `None` for an event of a kind that is not known here.

    Raises:
        ValueError: It is no event, or one of a later version of the format.
    """
    data: object = json.loads(line)
    if not isinstance(data, dict) or "event" not in data or "v" not in data:
        raise ValueError("not an event")
    told = cast("dict[str, Any]", data)
    if not isinstance(told["v"], int) or told["v"] > VERSION:
        raise LaterVersionError(f"version {told['v']} of the format is not known here")
    kind = KINDS.get(told["event"])
    if kind is None:
        return None
    try:
        return kind(**_known(kind, told))
    except (TypeError, AttributeError) as error:
        raise ValueError(f"not an event: {error}") from error


class LaterVersionError(ValueError):
    """A line is of a version of the format that came after this package."""


def _known(kind: type[TraceEvent], told: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in fields(kind):
        if one.name in told:
            found[one.name] = _read(kind, one.name, told[one.name])
        elif one.default is MISSING and one.default_factory is MISSING:
            raise ValueError(f"an event of the kind {kind.kind} has {one.name}")
    return found


def _read(kind: type[TraceEvent], name: str, value: Any) -> Any:
    match name:
        case "run":
            return str(value)
        case "id":
            return int(value)
        case "at":
            return float(value)
        case "message" if kind is Turn:
            return Message.from_dict(value)
        case "messages":
            return tuple(Message.from_dict(one) for one in value)
        case "usage":
            return UsageMetadata.from_dict(value)
        case "servers" | "tools" | "notes":
            return tuple(value)
        case _:
            return value


def plain(value: object) -> object:
    """Turn a value into what JSON can hold; anything unknown becomes its text."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Message() | UsageMetadata():
            return plain(value.to_dict())
        case Mapping():
            items = cast("Mapping[object, object]", value).items()
            return {str(name): plain(inner) for name, inner in items}
        case list() | tuple() | set() | frozenset():
            return [plain(inner) for inner in cast("list[object]", value)]
        case _:
            return str(value)


class Cleaner:
    """Takes the secrets out of plain data; what it has learned of names it remembers."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._names: dict[str, tuple[str, bool]] = {}

    def clean(self, value: object, name: str = "") -> object:
        """Return the data without its secrets; a name such as `password` tells one too."""
        match value:
            case str() if value:
                return HIDDEN if name and self._name(name)[1] else self._redact(value)
            case dict():
                items = cast("dict[str, object]", value).items()
                return {self._name(key)[0]: self.clean(inner, key) for key, inner in items}
            case list():
                return [self.clean(one, name) for one in cast("list[object]", value)]
            case _:
                return value

    def _name(self, name: str) -> tuple[str, bool]:
        """Return a name as it may be shown, and whether what it names is a secret."""
        known = self._names.get(name)
        if known is None:
            # A redactor knows secrets by what stands before them, too.
            labelled = f"{name}={_PROBE}"
            known = (self._redact(name), self._redact(labelled) != labelled)
            if len(self._names) < _MOST_NAMES:
                self._names[name] = known
        return known
