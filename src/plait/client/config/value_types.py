"""The kinds of values that configuration keys take, each a function that checks one value."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from re import Pattern
from typing import cast

from plait.client.config.problems import did_you_mean
from plait.client.config.raw_value import UNSET, RawValue, Reader, Unset

_LONGEST_QUOTE = 40
"""Longer values are not quoted in a message."""

_CONTENT_TYPES = ("text", "image", "audio", "resource", "resource_link", "structured_content")


def read_text(raw: RawValue) -> str | Unset:
    """Read a string that is not blank."""
    text = raw.text()
    if text is not UNSET and not text.strip():
        return raw.reject("empty_value", "must not be empty")
    return text


def read_any_text(raw: RawValue) -> str | Unset:
    """Read a string, which may be empty."""
    return raw.text()


def read_bool(raw: RawValue) -> bool | Unset:
    """Read true or false."""
    value = raw.scalar()
    if isinstance(value, bool) or value is UNSET:
        return value
    return raw.wrong_type("true or false", _unquoted(value, ("true", "false")))


def read_count(raw: RawValue) -> int | Unset:
    """Read a whole number of at least 1."""
    value = raw.scalar()
    if value is UNSET:
        return UNSET
    if isinstance(value, float):
        return raw.reject("wrong_type", "expected a whole number, found a fraction")
    if isinstance(value, bool) or not isinstance(value, int):
        return raw.wrong_type("a whole number")
    if value < 1:
        return raw.reject("bad_number", "must be at least 1")
    return value


def read_attempts(raw: RawValue) -> int | Unset:
    """Read how often to try; none at all is said by `enabled`."""
    if raw.value == 0 and raw.value is not False:
        return raw.reject("bad_number", "must be at least 1", 'to switch it off: "enabled": false')
    return read_count(raw)


def read_fraction(raw: RawValue) -> float | Unset:
    """Read a number from 0 to 1."""
    value = raw.scalar()
    if value is UNSET:
        return UNSET
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return raw.wrong_type("a number from 0 to 1")
    return float(value) if 0 <= value <= 1 else raw.reject("bad_number", "must be from 0 to 1")


def read_texts(raw: RawValue) -> tuple[str, ...] | Unset:
    """Read a list of strings."""
    hint = 'write ["…", "…"], one string for each word' if isinstance(raw.value, str) else None
    if not raw.is_list("a list of strings", hint):
        return UNSET
    texts = [item.text(suggestion=_quoted(item.value)) for item in raw.items()]
    return tuple(text for text in texts if text is not UNSET)


def read_lockfile_path(raw: RawValue) -> str | bool | Unset:
    """Read the path of a lockfile, seen from the configuration; true is the usual place."""
    if isinstance(raw.value, bool):
        return raw.value
    text = raw.text("a path, or true for the usual place")
    if text is UNSET:
        return UNSET
    if not text.strip():
        return raw.reject("empty_value", "must not be empty")
    location = Path(text)
    if location.parts[:1] == ("~",):
        location = raw.variables.home.joinpath(*location.parts[1:])
    return str(raw.variables.folder / location)


def read_patterns(raw: RawValue) -> tuple[object, ...] | Unset:
    """Read what tools are chosen by: names, globs and, from Python, whatever else chooses."""
    if isinstance(raw.value, str | Pattern | Mapping) or callable(raw.value):
        return _read_pattern(raw)
    if not raw.is_list("a list of names"):
        return UNSET
    return tuple(pattern for item in raw.items() for pattern in _read_pattern(item))


def _read_pattern(raw: RawValue) -> tuple[object, ...]:
    if isinstance(raw.value, Pattern | Mapping) or callable(raw.value):
        return (cast("object", raw.value),)
    text = raw.text(suggestion=_quoted(raw.value))
    return () if text is UNSET else (text,)


def read_text_map(raw: RawValue) -> dict[str, str] | Unset:
    """Read an object whose values are strings."""
    if not raw.is_object("an object of strings"):
        return UNSET
    texts = {key: entry.text(suggestion=_quoted(entry.value)) for key, entry in raw.entries()}
    return {key: text for key, text in texts.items() if text is not UNSET}


def read_encoding(raw: RawValue) -> str | Unset:
    """Read the name of a text encoding."""
    text = read_text(raw)
    if text is UNSET:
        return UNSET
    try:
        codecs.lookup(text)
    except LookupError:
        return raw.reject("unknown_value", "is not a text encoding", 'usual is "utf-8"')
    return text


def read_function(raw: RawValue) -> object:
    """Read a function, which only Python can give."""
    if callable(raw.value):
        return raw.value
    return raw.wrong_type("a function", "functions can only be given in Python")


def read_object(raw: RawValue) -> object:
    """Read an object of another library as it is; within JSON values, variables are replaced."""
    if isinstance(raw.value, type):
        return raw.wrong_type("an object", f"make one: {raw.value.__name__}(…)")
    return read_data(raw)


def read_data(raw: RawValue) -> object:
    """Read any value, with the variables in all strings of it replaced."""
    if isinstance(raw.value, str):
        return raw.text()
    if isinstance(raw.value, Mapping):
        return {key: read_data(entry) for key, entry in raw.entries()}
    if isinstance(raw.value, list):
        return [read_data(item) for item in raw.items()]
    return raw.value


def read_data_map(raw: RawValue) -> object:
    """Read an object of any values."""
    return read_data(raw) if raw.is_object("an object") else UNSET


def read_output_handling(raw: RawValue) -> str | dict[str, str] | Unset:
    """Read where content goes: one word for all of it, or one per content type."""
    if not isinstance(raw.value, Mapping):
        return _read_content_target(raw)
    handling: dict[str, str] = {}
    for name, entry in raw.entries():
        if name not in _CONTENT_TYPES:
            hint = did_you_mean(name, _CONTENT_TYPES) or f"known are {_listed(_CONTENT_TYPES)}"
            entry.location.flag("unknown_key", f'there is no content type "{name}"', hint)
        elif (word := _PLACES.get(name, _read_content_target)(entry)) is not UNSET:
            handling[name] = word
    return handling


def one_of(
    *words: str, aliases: Mapping[str, str] | None = None, hints: Mapping[str, str] | None = None
) -> Callable[[RawValue], str | Unset]:
    """Make a reader for one of these words.

    `aliases` gives other spellings of them, and `hints` the answer to expected mistakes.
    """
    spellings = {**{word: word for word in words}, **(aliases or {})}

    def read_word(raw: RawValue) -> str | Unset:
        expected = f"one of {_listed(words)}"
        text = raw.text(expected)
        if text is UNSET:
            return UNSET
        if text in spellings:
            return spellings[text]
        hint = (hints or {}).get(text) or did_you_mean(text, spellings)
        return raw.reject("unknown_value", f"expected {expected}, found {quote(raw)}", hint)

    return read_word


_read_content_target = one_of("content", "artifact")
_PLACES = {"structured_content": one_of("auto", "content", "artifact")}


def function_or(other: Reader) -> Reader:
    """Make a reader that also takes a function."""
    return lambda raw: raw.value if callable(raw.value) else other(raw)


def quote(raw: RawValue) -> str:
    """Quote a short word as it was written; anything else could hold a secret."""
    written = raw.value
    if isinstance(written, str) and len(written) <= _LONGEST_QUOTE:
        return json.dumps(written, ensure_ascii=False)
    return "another value"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)


def _quoted(value: object) -> str | None:
    return "put it in quotes" if isinstance(value, (bool, int, float)) else None


def _unquoted(value: object, words: Sequence[str]) -> str | None:
    written = str(value).lower()
    return f"without quotes: {written}" if written in words else None
