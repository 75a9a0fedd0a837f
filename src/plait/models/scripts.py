"""What a model is to say, written down: for models that follow a script."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, Final, cast

from plait.errors import ConfigError, Problem

USAGE_KEYS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_creation_tokens",
)
"""The counts that the usage of a turn may give."""

_SAY_KEYS: Final = ("text", "calls", "thinking", "usage", "delay")

_CALL_KEYS: Final = ("name", "arguments", "id")


@dataclass(frozen=True, slots=True)
class Call:
    """A wish to call a tool."""

    name: str

    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])

    id: str | None = None
    """Without one, whoever plays the script makes a unique one."""


@dataclass(frozen=True, slots=True)
class Say:
    """One turn of a model: a text, tools to call at once, or both."""

    text: str = ""

    calls: tuple[Call, ...] = ()

    thinking: str | None = None
    """What the model thinks before it speaks."""

    usage: Mapping[str, int] | None = None
    """Counts by the names in `USAGE_KEYS`; what is missing, the player makes up."""

    delay: float = 0.0
    """Seconds before it is said."""


def read_script(path: str | PathLike[str]) -> list[Say]:
    """Read turns from a JSON file: an array of texts and objects with the fields of `Say`.

    Raises:
        ConfigError: The file cannot be read, or an item is no turn; every fault is listed.
    """
    file = str(path)
    try:
        items: object = json.loads(Path(path).read_text("utf-8-sig"))
    except OSError as error:
        raise _unreadable(file, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _unreadable(file, f"is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _unreadable(file, f"is not JSON: {error.msg} at {where}") from error
    except RecursionError as error:
        raise _unreadable(file, "is not a script: it is nested too deeply") from error
    if not isinstance(items, list):
        raise _unreadable(file, f"must be an array of turns, not {_kind(items)}")
    reader = _Reader(file)
    turns = cast("list[object]", items)
    script = [reader.say(item, f"item {number}") for number, item in enumerate(turns, 1)]
    reader.raise_problems()
    return script


def say_from(item: object) -> Say:
    """Read one turn: a text, an object with the fields of `Say`, or a `Say` as it is.

    Raises:
        ConfigError: It is none of these; every fault is listed.
    """
    if isinstance(item, Say):
        return item
    reader = _Reader(None)
    say = reader.say(item, "")
    reader.raise_problems()
    return say


class _Reader:
    """Reads turns, and collects what is wrong with them."""

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._problems: list[Problem] = []

    def raise_problems(self) -> None:
        if self._problems:
            raise ConfigError.from_problems(self._problems)

    def say(self, item: object, path: str) -> Say:
        if isinstance(item, str):
            return Say(item)
        if not isinstance(item, Mapping):
            allowed = f"an object with {_listed(_SAY_KEYS)}"
            self._complain(path, f"must be a text or {allowed}, not {_kind(item)}")
            return Say()
        turn = cast("Mapping[str, object]", item)
        self._check_keys(turn, _SAY_KEYS, path)
        return Say(
            text=self._text(turn, "text", path) or "",
            calls=self._calls(turn.get("calls"), _inside(path, "calls")),
            thinking=self._text(turn, "thinking", path),
            usage=self._usage(turn.get("usage"), _inside(path, "usage")),
            delay=self._delay(turn.get("delay"), _inside(path, "delay")),
        )

    def _calls(self, items: object, path: str) -> tuple[Call, ...]:
        if items is None:
            return ()
        if not isinstance(items, list | tuple):
            self._complain(path, f"must be an array of calls, not {_kind(items)}")
            return ()
        calls = enumerate(cast("list[object]", items))
        return tuple(self._call(item, f"{path}[{index}]") for index, item in calls)

    def _call(self, item: object, path: str) -> Call:
        if isinstance(item, Call):
            return item
        if not isinstance(item, Mapping):
            self._complain(path, f"must be an object with {_listed(_CALL_KEYS)}, not {_kind(item)}")
            return Call("")
        call = cast("Mapping[str, object]", item)
        self._check_keys(call, _CALL_KEYS, path)
        name = self._text(call, "name", path)
        if not name and not isinstance(call.get("name"), str | None):
            return Call("")
        if not name:
            self._complain(path, "a call needs the name of a tool")
        arguments = call.get("arguments")
        if arguments is not None and not isinstance(arguments, Mapping):
            where = _inside(path, "arguments")
            self._complain(where, f"must be an object, not {_kind(arguments)}")
            arguments = None
        return Call(
            name=name or "",
            arguments=dict(cast("Mapping[str, Any]", arguments or {})),
            id=self._text(call, "id", path) or None,
        )

    def _usage(self, counts: object, path: str) -> Mapping[str, int] | None:
        if counts is None:
            return None
        if not isinstance(counts, Mapping):
            self._complain(path, f"must be an object with {_listed(USAGE_KEYS)}")
            return None
        usage = cast("Mapping[str, object]", counts)
        self._check_keys(usage, USAGE_KEYS, path)
        for name, count in usage.items():
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                self._complain(_inside(path, name), "must be a whole number, 0 or more")
        return cast("dict[str, int]", dict(usage))

    def _delay(self, value: object, path: str) -> float:
        match value:
            case None:
                return 0.0
            case int() | float() if value is not True and 0 <= value < math.inf:
                return float(value)
            case _:
                self._complain(path, "must be a number of seconds, 0 or more")
                return 0.0

    def _text(self, item: Mapping[str, object], key: str, path: str) -> str | None:
        value = item.get(key)
        if value is None or isinstance(value, str):
            return value
        self._complain(_inside(path, key), f"must be a text, not {_kind(value)}")
        return None

    def _check_keys(self, item: Mapping[str, object], known: Collection[str], path: str) -> None:
        for key in item:
            if key not in known:
                near = difflib.get_close_matches(str(key).lower(), known, n=1)
                hint = f'did you mean "{near[0]}"? ' if near else ""
                advice = f"{hint}allowed: {_listed(known)}"
                self._complain(path, f'unknown key "{key}"', advice, code="unknown_key")

    def _complain(
        self, path: str, message: str, advice: str | None = None, *, code: str = "invalid_value"
    ) -> None:
        problem = Problem(file=self._file, path=path, code=code, message=message, suggestion=advice)
        self._problems.append(problem)


def _unreadable(file: str, message: str) -> ConfigError:
    problem = Problem(file=file, path="", code="file_unreadable", message=f"the script {message}")
    return ConfigError.from_problems([problem])


def _inside(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _listed(keys: Collection[str]) -> str:
    return ", ".join(keys)


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list() | tuple():
            return "an array"
        case Mapping():
            return "an object"
        case _:
            return type(value).__name__
