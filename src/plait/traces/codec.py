"""Encodes events as lines of JSON, and decodes them."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any, cast

from cachetools import LRUCache

from plait._support.redact import HIDDEN
from plait.traces.events import KINDS, VERSION, ResultImage, TraceEvent, Turn
from plait.traces.messages.message import Message, UsageMetadata
from plait.traces.shapes import misfits

Redact = Callable[[str], str]
"""Removes the secrets from a text."""

_PROBE = "some-value"
"""A value to find out whether the redactor hides values of a name."""

_WITHOUT_SECRETS = frozenset({"run", "id", "parent", "time", "at", "question_hash"})
"""The fields that the recorder fills itself."""


def line_from_event(event: TraceEvent, cleaner: Cleaner | None = None) -> bytes:
    """Encode an event as one line with its line break; fields that are `None` are left out."""
    data: dict[str, object] = {"v": VERSION, "event": event.kind}
    for field in fields(event):
        value: object = getattr(event, field.name)
        if value is None or (field.name == "images" and not value):
            continue
        value = plain(value)
        if cleaner is not None and field.name not in _WITHOUT_SECRETS:
            value = cleaner.clean(value, field.name)
        data[field.name] = value
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which needs an escape
        return json.dumps(data, separators=(",", ":")).encode() + b"\n"


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
        event = kind(**{name: _decoded(kind, name, data[name]) for name in names})
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
    "images": lambda value: tuple(_image_from_dict(image) for image in value),
}
"""How the values of fields are read that are not plain JSON."""


def _decoded(kind: type[TraceEvent], name: str, value: Any) -> Any:
    decode = Message.from_dict if kind is Turn and name == "message" else _DECODERS.get(name)
    return value if decode is None else decode(value)


def bytes_from_base64(data: str) -> bytes:
    """Return the bytes of an image; of a text that is not base64, the text itself."""
    try:
        return base64.b64decode(data)
    except ValueError:
        return data.encode("utf-8", "surrogatepass")


def _image_from_dict(data: Mapping[str, Any]) -> ResultImage:
    return ResultImage(
        mime_type=data["mime_type"],
        digest=data["digest"],
        size_bytes=data["size_bytes"],
        data=data.get("data"),
    )


def plain(value: object) -> object:
    """Convert a value to JSON types; an unknown type becomes its text."""
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
        case _:
            return str(value)


class Cleaner:
    """Redacts plain data; it remembers which names are those of secrets."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._names: LRUCache[str, tuple[str, bool]] = LRUCache(1000)

    def clean(self, value: object, name: str = "") -> object:
        """Return the data without secrets, which a name such as `password` marks too."""
        match value:
            case str() if value:
                return HIDDEN if name and self._name(name)[1] else self._redact(value)
            case {"type": "image", "data": str(image)}:
                facts = {**cast("dict[str, object]", value), "data": ""}
                kept = {name: self.clean(fact, name) for name, fact in facts.items()}
                return {**kept, "data": image if self._is_clean(image) else HIDDEN}
            case dict():
                items = cast("dict[str, object]", value).items()
                return {self._name(key)[0]: self.clean(inner, key) for key, inner in items}
            case list():
                return [self.clean(item, name) for item in cast("list[object]", value)]
            case _:
                return value

    def _is_clean(self, image: str) -> bool:
        """Check the bytes of an image for secrets; in base64, random parts look like some."""
        text = bytes_from_base64(image).decode("latin-1")
        return self._redact(text) == text

    def _name(self, name: str) -> tuple[str, bool]:
        """Return the redacted name, and whether its value is a secret."""
        known = self._names.get(name)
        if known is None:
            # A redactor also finds secrets by the name before them.
            labelled = f"{name}={_PROBE}"
            known = (self._redact(name), self._redact(labelled) != labelled)
            self._names[name] = known
        return known
