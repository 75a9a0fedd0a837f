"""Makes texts well-formed: lone surrogates cannot be encoded, and end a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

V = TypeVar("V")


def well_formed(text: str) -> str:
    """Return a text that can be encoded: surrogate pairs are joined, lone ones replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def well_formed_data(value: V) -> V:
    """Return JSON data in which every text can be encoded."""
    return cast("V", _data(value))


def _data(value: Any) -> Any:
    match value:
        case str():
            return well_formed(value)
        case Mapping():
            items = cast("Mapping[Any, Any]", value).items()
            return {_data(key): _data(inner) for key, inner in items}
        case list() | tuple():
            return [_data(inner) for inner in cast("list[Any]", value)]
        case _:
            return value
