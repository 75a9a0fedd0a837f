"""The kinds of values that configuration keys take, each a function that checks one value."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from re import Pattern
from typing import cast

from plait.client.config.problems import did_you_mean
from plait.client.config.raw_value import UNSET, Given, Read, Unset

_LONGEST_QUOTE = 40
"""Longer values are not quoted in a message."""

_CONTENT_TYPES = ("text", "image", "audio", "resource", "resource_link", "structured_content")


def read_text(given: Given) -> str | Unset:
    """Read a string that is not blank."""
    text = given.text()
    if text is not UNSET and not text.strip():
        return given.refuse("empty_value", "must not be empty")
    return text


def read_any_text(given: Given) -> str | Unset:
    """Read a string, which may be empty."""
    return given.text()


def read_bool(given: Given) -> bool | Unset:
    """Read true or false."""
    value = given.scalar()
    if isinstance(value, bool) or value is UNSET:
        return value
    return given.wrong_type("true or false", _unquoted(value, ("true", "false")))


def read_count(given: Given) -> int | Unset:
    """Read a whole number of at least 1."""
    value = given.scalar()
    if value is UNSET:
        return UNSET
    if isinstance(value, float):
        return given.refuse("wrong_type", "expected a whole number, found a fraction")
    if isinstance(value, bool) or not isinstance(value, int):
        return given.wrong_type("a whole number")
    if value < 1:
        return given.refuse("bad_number", "must be at least 1")
    return value


def read_attempts(given: Given) -> int | Unset:
    """Read how often to try; none at all is said by `enabled`."""
    if given.value == 0 and given.value is not False:
        return given.refuse(
            "bad_number", "must be at least 1", 'to switch it off: "enabled": false'
        )
    return read_count(given)


def read_share(given: Given) -> float | Unset:
    """Read a number from 0 to 1."""
    value = given.scalar()
    if value is UNSET:
        return UNSET
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return given.wrong_type("a number from 0 to 1")
    return float(value) if 0 <= value <= 1 else given.refuse("bad_number", "must be from 0 to 1")


def read_texts(given: Given) -> tuple[str, ...] | Unset:
    """Read a list of strings."""
    hint = 'write ["…", "…"], one string for each word' if isinstance(given.value, str) else None
    if not given.is_list("a list of strings", hint):
        return UNSET
    texts = [item.text(suggestion=_quoted(item.value)) for item in given.items()]
    return tuple(text for text in texts if text is not UNSET)


def read_lockfile_place(given: Given) -> str | bool | Unset:
    """Read the path of a lockfile, seen from the configuration; true is the usual place."""
    if isinstance(given.value, bool):
        return given.value
    text = given.text("a path, or true for the usual place")
    if text is UNSET:
        return UNSET
    if not text.strip():
        return given.refuse("empty_value", "must not be empty")
    place = Path(text)
    if place.parts[:1] == ("~",):
        place = given.variables.home.joinpath(*place.parts[1:])
    return str(given.variables.folder / place)


def read_patterns(given: Given) -> tuple[object, ...] | Unset:
    """Read what tools are chosen by: names, globs and, from Python, whatever else chooses."""
    if isinstance(given.value, str | Pattern | Mapping) or callable(given.value):
        return _read_pattern(given)
    if not given.is_list("a list of names"):
        return UNSET
    return tuple(pattern for item in given.items() for pattern in _read_pattern(item))


def _read_pattern(given: Given) -> tuple[object, ...]:
    if isinstance(given.value, Pattern | Mapping) or callable(given.value):
        return (cast("object", given.value),)
    text = given.text(suggestion=_quoted(given.value))
    return () if text is UNSET else (text,)


def read_text_map(given: Given) -> dict[str, str] | Unset:
    """Read an object whose values are strings."""
    if not given.is_object("an object of strings"):
        return UNSET
    texts = {key: entry.text(suggestion=_quoted(entry.value)) for key, entry in given.entries()}
    return {key: text for key, text in texts.items() if text is not UNSET}


def read_encoding(given: Given) -> str | Unset:
    """Read the name of a text encoding."""
    text = read_text(given)
    if text is UNSET:
        return UNSET
    try:
        codecs.lookup(text)
    except LookupError:
        return given.refuse("unknown_value", "is not a text encoding", 'usual is "utf-8"')
    return text


def read_function(given: Given) -> object:
    """Read a function, which only Python can give."""
    if callable(given.value):
        return given.value
    return given.wrong_type("a function", "functions can only be given in Python")


def read_object(given: Given) -> object:
    """Read an object of another library as it is; within JSON values, variables are replaced."""
    if isinstance(given.value, type):
        return given.wrong_type("an object", f"make one: {given.value.__name__}(…)")
    return read_data(given)


def read_data(given: Given) -> object:
    """Read any value, with the variables in all strings of it replaced."""
    if isinstance(given.value, str):
        return given.text()
    if isinstance(given.value, Mapping):
        return {key: read_data(entry) for key, entry in given.entries()}
    if isinstance(given.value, list):
        return [read_data(item) for item in given.items()]
    return given.value


def read_data_map(given: Given) -> object:
    """Read an object of any values."""
    return read_data(given) if given.is_object("an object") else UNSET


def read_output_handling(given: Given) -> str | dict[str, str] | Unset:
    """Read where content goes: one word for all of it, or one per content type."""
    if not isinstance(given.value, Mapping):
        return _read_content_place(given)
    handling: dict[str, str] = {}
    for name, entry in given.entries():
        if name not in _CONTENT_TYPES:
            hint = did_you_mean(name, _CONTENT_TYPES) or f"known are {_listed(_CONTENT_TYPES)}"
            entry.place.doubt("unknown_key", f'there is no content type "{name}"', hint)
        elif (word := _PLACES.get(name, _read_content_place)(entry)) is not UNSET:
            handling[name] = word
    return handling


def one_of(
    *words: str, aliases: Mapping[str, str] | None = None, hints: Mapping[str, str] | None = None
) -> Callable[[Given], str | Unset]:
    """Make a reader for one of these words.

    `aliases` gives other spellings of them, and `hints` the answer to expected mistakes.
    """
    spellings = {**{word: word for word in words}, **(aliases or {})}

    def read_word(given: Given) -> str | Unset:
        expected = f"one of {_listed(words)}"
        text = given.text(expected)
        if text is UNSET:
            return UNSET
        if text in spellings:
            return spellings[text]
        hint = (hints or {}).get(text) or did_you_mean(text, spellings)
        return given.refuse("unknown_value", f"expected {expected}, found {quote(given)}", hint)

    return read_word


_read_content_place = one_of("content", "artifact")
_PLACES = {"structured_content": one_of("auto", "content", "artifact")}


def function_or(other: Read) -> Read:
    """Make a reader that also takes a function."""
    return lambda given: given.value if callable(given.value) else other(given)


def quote(given: Given) -> str:
    """Quote a short word as it was written; anything else could hold a secret."""
    written = given.value
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
