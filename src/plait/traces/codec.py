"""Encodes events as lines of JSON, decodes them, and checks the types of what it decoded."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache, lru_cache
from pathlib import PurePath
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints
from uuid import UUID

from plait._support.redact import HIDDEN
from plait.traces.events import KINDS, VERSION, ResultImage, TraceEvent, Turn
from plait.traces.messages.message import Message, UsageMetadata

Redact = Callable[[str], str]
"""Removes the secrets from a text."""

_PROBE = "some-value"
"""A value to find out whether the redactor hides values of a name."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

_WITHOUT_SECRETS = frozenset({"run", "id", "parent", "time", "at", "question_hash"})
"""The fields that the recorder fills itself."""


def line_from_event(event: TraceEvent, cleaner: Cleaner | None = None) -> bytes:
    """Encode an event as one line with its line break; fields that are `None` are left out."""
    data: dict[str, object] = {"v": VERSION, "event": event.kind}
    for name in _field_names(type(event)):
        value: object = getattr(event, name)
        if value is None or (name == "images" and not value):
            continue
        value = plain(value)
        if cleaner is not None and name not in _WITHOUT_SECRETS:
            value = cleaner.clean(value, name)
        data[name] = value
    text = _ENCODER.encode(data)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which needs an escape
        return json.dumps(data, separators=(",", ":")).encode() + b"\n"


@cache
def _field_names(kind: type[TraceEvent]) -> Sequence[str]:
    return [field.name for field in fields(kind)]


def event_from_line(line: bytes) -> TraceEvent | None:
    """Decode one line; `None` for an unknown kind of event.

    Raises:
        ValueError: It is not an event, or has a later version of the format.
    """
    try:
        value: object = json.loads(line)
    except RecursionError as error:
        raise ValueError("not an event: nested too deeply") from error
    if not isinstance(value, dict) or "event" not in value or "v" not in value:
        raise ValueError("not an event")
    data = cast("dict[str, Any]", value)
    if not isinstance(data["v"], int) or data["v"] > VERSION:
        raise LaterVersionError(f"version {data['v']} of the format is not supported")
    kind = KINDS.get(str(data["event"]))
    if kind is None:
        return None
    names = [field.name for field in fields(kind) if field.name in data]
    try:
        values: dict[str, Any] = {}
        for name in names:
            is_turn = kind is Turn and name == "message"
            decode = Message.from_dict if is_turn else _DECODERS.get(name)
            values[name] = data[name] if decode is None else decode(data[name])
        event = kind(**values)
    except (TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"not an event: {error}") from error
    if wrong := misfits(event):
        raise ValueError(f"not an event: unexpected {', '.join(wrong)}")
    return event


class LaterVersionError(ValueError):
    """A line has a later version of the format than this package."""


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    "messages": lambda value: tuple(map(Message.from_dict, value)),
    "usage": UsageMetadata.from_dict,
    "servers": tuple,
    "tools": tuple,
    "notes": tuple,
    "images": lambda value: tuple(
        ResultImage(
            mime_type=image["mime_type"],
            digest=image["digest"],
            size_bytes=image["size_bytes"],
            data=image.get("data"),
        )
        for image in value
    ),
}
"""How the values of fields are read that are not plain JSON."""


def bytes_from_base64(data: str) -> bytes:
    """Return the bytes of an image; of a text that is not base64, the text itself."""
    try:
        return base64.b64decode(data)
    except ValueError:
        return data.encode("utf-8", "surrogatepass")


def plain(value: object) -> object:
    """Convert a value to JSON types; an unknown object, whose text may be secret, to its type."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Message() | UsageMetadata():
            return plain(value.to_dict())
        case ResultImage():
            known = {name: data for name, data in asdict(value).items() if data is not None}
            return {"type": "image", **known}
        case Mapping():
            items = cast("Mapping[object, object]", value).items()
            return {str(name): plain(inner) for name, inner in items}
        case list() | tuple() | set() | frozenset():
            return [plain(inner) for inner in cast("list[object]", value)]
        case Enum():
            return plain(value.value)
        case PurePath() | date() | time() | timedelta() | Decimal() | UUID():
            return str(value)
        case _:
            return f"<{getattr(value, '__name__', type(value).__name__)}>"


class Cleaner:
    """Redacts plain data; it remembers which names are those of secrets."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._name = lru_cache(1000)(self._read_name)

    def clean(self, value: object, name: str = "") -> object:
        """Return the data without secrets, which a name such as `password` marks too."""
        match value:
            case str() if value:
                return HIDDEN if name and self._name(name)[1] else self._redact(value)
            case {"type": "image", "data": str(image)}:
                facts = {**cast("dict[str, object]", value), "data": ""}
                kept = {name: self.clean(fact, name) for name, fact in facts.items()}
                # The bytes are checked: in base64, random parts look like secrets.
                text = bytes_from_base64(image).decode("latin-1")
                return {**kept, "data": image if self._redact(text) == text else HIDDEN}
            case dict():
                items = cast("dict[str, object]", value).items()
                return {self._name(key)[0]: self.clean(inner, key) for key, inner in items}
            case list():
                return [self.clean(item, name) for item in cast("list[object]", value)]
            case _:
                return value

    def _read_name(self, name: str) -> tuple[str, bool]:
        """Return the redacted name, and whether its value is a secret."""
        # A redactor also finds secrets by the name before them.
        labelled = f"{name}={_PROBE}"
        return self._redact(name), self._redact(labelled) != labelled


Fits = Callable[[Any], bool]

MAX_NUMBER = 1e15
"""No count, size or time of a run is larger; pages and sums can show those up to it."""


def misfits(value: object) -> list[str]:
    """Return the names of the fields of a dataclass whose values have other types."""
    return [name for name, fits in _fields_of(type(value)) if not fits(getattr(value, name))]


@cache
def _fields_of(kind: type) -> Sequence[tuple[str, Fits]]:
    hints = get_type_hints(kind)
    return [(field.name, _check_of(hints[field.name])) for field in fields(kind)]


@cache
def _check_of(hint: Any) -> Fits:
    kind: Any = get_origin(hint) or hint
    inner = get_args(hint)
    if hint is Any:
        return _anything
    if kind in {Union, UnionType}:
        checks = [_check_of(one) for one in inner]
        return lambda value: any(fits(value) for fits in checks)
    if kind is Literal:  # later versions may know more
        return _check_of(str)
    if kind in {int, float}:
        return _number(int if kind is int else (int, float))
    if inner and issubclass(kind, Mapping):
        return _all_of(dict, dict[Any, Any].values, _check_of(inner[1]))
    if inner and issubclass(kind, Iterable):
        return _all_of(kind, iter, _check_of(inner[0]))
    if isinstance(kind, type) and is_dataclass(kind):
        return lambda value: isinstance(value, kind) and not misfits(value)
    return lambda value: isinstance(value, kind)


def _anything(_value: object) -> bool:
    return True


def _all_of(kind: Any, items: Callable[[Any], Iterable[Any]], fits: Fits) -> Fits:
    if fits is _anything:
        return lambda value: isinstance(value, kind)
    return lambda value: isinstance(value, kind) and all(map(fits, items(value)))


def _number(kinds: type | tuple[type, ...]) -> Fits:
    def check(value: Any) -> bool:
        is_number = isinstance(value, kinds) and not isinstance(value, bool)
        return is_number and -MAX_NUMBER <= value <= MAX_NUMBER

    return check
