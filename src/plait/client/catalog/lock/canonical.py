"""One form for values that mean the same, so that only what matters counts as a change.

The order of keys, the order of `required` and the way a number is written mean nothing. Texts are
kept character for character: another normal form of Unicode is another text.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, cast

_UNORDERED = frozenset({"required", "type"})
"""Keywords of a schema whose list is a set."""

_DATA = frozenset({"default", "examples", "enum", "const"})
"""Keywords of a schema whose value is data, in which a key means nothing special."""

_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose keys are names, and whose values are schemas."""


def canonical(value: Any) -> Any:
    """Return the value as plain data with sorted keys and numbers in one form."""
    match value:
        case bool() | None | str():
            return value
        case float() if math.isfinite(value) and value.is_integer():
            return int(value)
        case Mapping():
            entries = cast("Mapping[str, Any]", value)
            return {str(key): canonical(entries[key]) for key in sorted(entries)}
        case list() | tuple():
            return [canonical(one) for one in cast("list[Any]", value)]
        case _:
            return value


def canonical_schema(schema: Any) -> Any:
    """Return a schema in one form; lists that are sets are sorted too."""
    if isinstance(schema, list | tuple):
        return [canonical_schema(one) for one in cast("list[Any]", schema)]
    if not isinstance(schema, Mapping):
        return canonical(schema)
    entries = cast("Mapping[str, Any]", schema)
    return {key: _keyword(key, entries[key]) for key in sorted(entries)}


def _keyword(key: str, value: Any) -> Any:
    if key in _DATA:
        return canonical(value)
    if key in _NAMED and isinstance(value, Mapping):
        named = cast("Mapping[str, Any]", value)
        return {name: canonical_schema(named[name]) for name in sorted(named)}
    if key in _UNORDERED and _are_texts(value):
        return sorted(value)
    return canonical_schema(value)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in cast("list[Any]", value))


def text_of(value: Any) -> str:
    """Write a canonical value as one line of JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any) -> str:
    """Return the hash of a value that is in canonical form."""
    return f"sha256:{hashlib.sha256(text_of(value).encode('utf-8', 'surrogatepass')).hexdigest()}"
