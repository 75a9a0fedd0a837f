"""Readers for the types of values that configuration keys take.

A bare number under a snake_case key is in seconds, under a camelCase key in milliseconds.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from re import Pattern
from typing import cast

from plait._support.durations import is_finite_number
from plait._support.suggestions import did_you_mean
from plait.client.config.raw_value import UNSET, RawValue, Reader, RejectedError, Unset

_MAX_QUOTED_CHARACTERS = 40
"""Longer values are not quoted in a message."""
_MAX_USUAL_SECONDS = 3600
"""A longer wait is more often a number of milliseconds under a key that takes seconds."""
_MIN_USUAL_MILLISECONDS = 100
"""A shorter wait is more often a number of seconds under a key that takes milliseconds."""
_CONTENT_TYPES = ("text", "image", "audio", "resource", "resource_link", "structured_content")
_VARIABLE_NAME = re.compile(r"[^=\0]+")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""https://www.rfc-editor.org/rfc/rfc9110#name-tokens"""


def read_text(raw: RawValue, expected: str = "a string") -> str:
    """Read a string that is not blank."""
    text = raw.text(expected)
    if not text.strip():
        raw.reject("empty_value", "must not be empty")
    return text


def _read_quoted_text(raw: RawValue) -> str:
    hint = "put it in quotes" if isinstance(raw.value, (bool, int, float)) else None
    return raw.text(suggestion=hint)


def read_bool(raw: RawValue) -> bool:
    """Read true or false."""
    value = raw.scalar()
    if isinstance(value, bool):
        return value
    written = str(value).lower()
    hint = f"without quotes: {written}" if written in ("true", "false") else None
    return raw.reject_type("true or false", hint)


def read_count(raw: RawValue) -> int:
    """Read a whole number of at least 1."""
    return read_whole_number(raw, minimum=1)


def read_whole_number(raw: RawValue, *, minimum: int) -> int:
    """Read a whole number with a lower bound."""
    value = raw.scalar()
    if isinstance(value, float):
        raw.reject("wrong_type", "expected a whole number, found a fraction")
    if isinstance(value, bool) or not isinstance(value, int):
        raw.reject_type("a whole number")
    if value < minimum:
        raw.reject("bad_number", f"must be at least {minimum}")
    return value


def read_texts(raw: RawValue) -> tuple[str, ...]:
    """Read a list of strings."""
    hint = 'write ["…", "…"], one string for each word' if isinstance(raw.value, str) else None
    return raw.read_items(_read_quoted_text, "a list of strings", hint)


def read_lockfile_path(raw: RawValue) -> str | bool:
    """Read the path of a lockfile, relative to the configuration; true is the default path."""
    if isinstance(raw.value, bool):
        return raw.value
    return str(raw.path(read_text(raw, "a path, or true for the default path")))


def read_patterns(raw: RawValue) -> tuple[object, ...]:
    """Read a tool selection: names, globs and, from Python, regular expressions or functions."""

    def read_pattern(raw: RawValue) -> object:
        if isinstance(raw.value, Pattern | Mapping) or callable(raw.value):
            return cast("object", raw.value)
        return _read_quoted_text(raw)

    if isinstance(raw.value, str | Pattern | Mapping) or callable(raw.value):
        return (read_pattern(raw),)
    return raw.read_items(read_pattern, "a list of names")


def read_text_map(raw: RawValue) -> dict[str, str]:
    """Read an object whose values are strings."""
    return raw.read_entries(_read_quoted_text, "an object of strings")


def read_encoding(raw: RawValue) -> str:
    """Read the name of a text encoding."""
    text = read_text(raw)
    try:
        codecs.lookup(text)
    except LookupError:
        raw.reject("unknown_value", "is not a text encoding", 'the usual one is "utf-8"')
    return text


def read_function(raw: RawValue) -> object:
    """Read a function, which only Python can pass."""
    if not callable(raw.value):
        raw.reject_type("a function", "functions can only be passed in Python")
    return raw.value


def read_object(raw: RawValue) -> object:
    """Read an object of another library as it is; in JSON values, variables are replaced."""
    if isinstance(raw.value, type):
        raw.reject_type("an object", f"create one: {raw.value.__name__}(…)")
    return read_data(raw)


def read_data(raw: RawValue) -> object:
    """Read any value, with the variables in its strings replaced, and durations as seconds."""
    if isinstance(raw.value, str):
        return raw.text()
    if isinstance(raw.value, timedelta):
        return raw.value.total_seconds()
    if isinstance(raw.value, Mapping):
        return raw.read_entries(read_data, "an object")
    if isinstance(raw.value, list):
        return list(raw.read_items(read_data, "a list"))
    return raw.value


def read_data_map(raw: RawValue) -> dict[str, object]:
    """Read an object of any values."""
    return raw.read_entries(read_data, "an object")


def read_session_options(raw: RawValue) -> dict[str, object]:
    """Read keyword arguments for the SDK's client."""
    options, timeout = read_data_map(raw), "read_timeout_seconds"
    if options.get(timeout) is not None:
        read_seconds(replace(raw.child(timeout, options[timeout]), unit="seconds"))
    return options


def one_of(
    *words: str, aliases: Mapping[str, str] | None = None, hints: Mapping[str, str] | None = None
) -> Callable[[RawValue], str]:
    """Create a reader for one of these words.

    `aliases` maps other spellings to them, and `hints` maps expected mistakes to suggestions.
    """
    spellings = {**{word: word for word in words}, **(aliases or {})}

    def read_word(raw: RawValue) -> str:
        expected = f"one of {_word_list(words)}"
        text = raw.text(expected)
        if text not in spellings:
            hint = (hints or {}).get(text) or did_you_mean(text, spellings)
            raw.reject("unknown_value", f"expected {expected}, found {quote(raw)}", hint)
        return spellings[text]

    return read_word


def read_output_handling(raw: RawValue) -> str | dict[str, str]:
    """Read where content goes: one word for all of it, or one word per content type."""
    words = ("content", "artifact")
    if not isinstance(raw.value, Mapping):
        return one_of(*words)(raw)
    handling: dict[str, str] = {}
    for name, entry in raw.entries():
        if name in _CONTENT_TYPES:
            more = ("auto",) if name == "structured_content" else ()
            with suppress(RejectedError):
                handling[name] = one_of(*more, *words)(entry)
        else:
            hint = did_you_mean(name, _CONTENT_TYPES) or f"known are {_word_list(_CONTENT_TYPES)}"
            entry.location.flag("unknown_key", f'there is no content type "{name}"', hint)
    return handling


def function_or(other: Reader) -> Reader:
    """Create a reader that also accepts a function."""
    return lambda raw: raw.value if callable(raw.value) else other(raw)


def read_seconds(raw: RawValue) -> float:
    """Read a duration greater than 0."""
    seconds = read_delay(raw)
    if seconds == 0:
        raw.reject("bad_duration", "must be more than 0")
    value = raw.value if raw.unit == "milliseconds" else None
    if isinstance(value, (int, float)) and value < _MIN_USUAL_MILLISECONDS:
        raw.location.warn(
            "suspicious_duration",
            f"{value:g} milliseconds is very short; seconds?",
            f"camelCase durations are in milliseconds: {value * 1000:g}",
        )
    return seconds


def read_optional_seconds(raw: RawValue) -> float | Unset:
    """Read a duration of which 0 means the default."""
    is_zero = isinstance(raw.value, (int, float, timedelta)) and not raw.value
    return UNSET if is_zero and raw.value is not False else read_seconds(raw)


def read_idle_seconds(raw: RawValue) -> float | None:
    """Read a duration of which 0, false and null mean no limit."""
    if raw.value is None or (isinstance(raw.value, (int, float, timedelta)) and not raw.value):
        return None
    return read_seconds(raw)


def read_delay(raw: RawValue) -> float:
    """Read a duration that may be 0."""
    value = raw.scalar()
    if isinstance(value, bool) or not isinstance(value, (int, float, timedelta)):
        hint = f"without quotes: {value}" if str(value).isdecimal() else None
        raw.reject_type(f"a number of {raw.unit}", hint)
    number = value.total_seconds() if isinstance(value, timedelta) else value
    if not is_finite_number(number):
        raw.reject("bad_duration", "must be a finite number")
    is_bare = not isinstance(value, timedelta)
    seconds = number / 1000 if is_bare and raw.unit == "milliseconds" else float(number)
    if seconds < 0:
        raw.reject("bad_duration", "must not be negative")
    if is_bare and raw.unit == "seconds" and seconds > _MAX_USUAL_SECONDS:
        raw.location.warn(
            "suspicious_duration",
            f"{seconds:g} seconds is more than an hour; milliseconds?",
            f"snake_case durations are in seconds: {seconds / 1000:g}",
        )
    return seconds


def read_seconds_by_tool(raw: RawValue) -> dict[str, float]:
    """Read durations by tool name or glob; 0 and null leave a tool to the other settings."""
    return raw.read_entries(
        lambda entry: UNSET if entry.value is None else read_optional_seconds(entry),
        f"an object of tool names and {raw.unit}",
    )


def read_env(raw: RawValue) -> object:
    """Read environment variables, or a function of the run that returns them.

    A number is converted to text, and null leaves a variable out.
    """

    def read_value(raw: RawValue) -> str | Unset:
        if raw.value is None:
            return UNSET
        if isinstance(raw.value, (int, float)) and not isinstance(raw.value, bool):
            return str(raw.value)
        hint = 'write "true" or "false" in quotes' if isinstance(raw.value, bool) else None
        return raw.text(suggestion=hint)

    return _read_texts_by_name(raw, read_value, _VARIABLE_NAME, "an environment variable")


def read_headers(raw: RawValue) -> object:
    """Read HTTP headers, or a function that returns them."""

    def read_value(raw: RawValue) -> str:
        text = raw.text(suggestion="put it in quotes")
        if re.search(r"[\r\n]", text):
            hint = "often a variable that was set from a file, with its last newline"
            raw.reject("bad_value", "the value contains a line break", hint)
        return text

    return _read_texts_by_name(raw, read_value, _HEADER_NAME, "an HTTP header")


def _read_texts_by_name(
    raw: RawValue, read: Callable[[RawValue], str | Unset], valid: Pattern[str], noun: str
) -> object:
    if callable(raw.value):
        return raw.value
    expected = "an object of strings"
    for name, entry in raw.entries(expected):
        if not valid.fullmatch(name):
            entry.location.error("bad_name", f"is not a valid name for {noun}")
    return raw.read_entries(read, expected)


def read_inherit_env(raw: RawValue) -> bool | tuple[str, ...]:
    """Read which variables a server program inherits: all, none, or a list of names."""
    return read_bool(raw) if isinstance(raw.value, bool) else read_texts(raw)


def quote(raw: RawValue) -> str:
    """Quote a short word as written; anything else could be a secret."""
    written = raw.value
    if isinstance(written, str) and len(written) <= _MAX_QUOTED_CHARACTERS:
        return json.dumps(written, ensure_ascii=False)
    return "another value"


def _word_list(words: Sequence[str]) -> str:
    return ", ".join(f'"{word}"' for word in words)
