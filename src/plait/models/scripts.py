"""Scripts that stand in for a model: the turns, the files that hold them, and their playback."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Final, Generic, TypeAlias, TypeVar

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, with_config

from plait._support.suggestions import did_you_mean
from plait.errors import ConfigError, Problem

USAGE_KEYS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
"""The token counts that a turn may report."""

_UsageKey: TypeAlias = Annotated[str, Field(pattern=f"^({'|'.join(USAGE_KEYS)})$")]

_Count: TypeAlias = Annotated[int, Field(strict=True, ge=0)]


def _without_nulls(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: item for key, item in value.items() if item is not None}  # pyright: ignore[reportUnknownVariableType]
    return value


def _turn_fields(value: object) -> object:
    return {"text": value} if isinstance(value, str) else _without_nulls(value)


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of a scripted turn."""

    name: Annotated[str, Field(min_length=1)]
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    id: str | None = None
    """`None`: playback makes a unique id."""
    encoded: str | None = None
    """The JSON text to send in place of the arguments, such as broken or double-encoded JSON."""

    @property
    def arguments_text(self) -> str:
        """The arguments as the model writes them."""
        if self.encoded is not None:
            return self.encoded
        return json.dumps(dict(self.arguments), ensure_ascii=False)


@with_config(extra="forbid")
@dataclass(frozen=True, slots=True)
class Say:
    """One turn of a model: a text, tool calls to make in parallel, or both."""

    text: str = ""
    calls: tuple[Annotated[Call, BeforeValidator(_without_nulls)], ...] = ()
    thinking: str | None = None
    """The reasoning before the text."""
    usage: Mapping[_UsageKey, _Count] | None = None
    """Counts by the names in `USAGE_KEYS`; missing ones are estimated from the messages."""
    delay: Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)] = 0.0
    """Seconds before the turn is returned."""
    stop: str | None = None
    """The reason to stop, as the provider names it; by default the one that fits. At a limit of
    tokens (`max_tokens`, `length`) a stream ends in the middle of the last call."""

    @property
    def is_cut(self) -> bool:
        """Whether the turn ends at a limit of tokens."""
        return self.stop in ("max_tokens", "length", "model_context_window_exceeded")


_Request = TypeVar("_Request")
_Reply = TypeVar("_Reply")


class ScriptEndError(RuntimeError):
    """A script has no further reply."""


class ScriptPlayer(Generic[_Request, _Reply]):
    """Plays a script: replies in order, replies by name, or a function of each request.

    In a mapping, a list is consumed reply by reply, a single reply is repeated, and `"*"` matches
    every name that is not listed.
    """

    def __init__(
        self,
        script: Sequence[_Reply]
        | Mapping[str, _Reply | Sequence[_Reply]]
        | Callable[[_Request], _Reply],
    ) -> None:
        self._function: Callable[[_Request], _Reply] | None = None
        self._replies: dict[str, Iterator[_Reply]] = {}
        self._sizes: dict[str, int] = {}
        self.is_function = callable(script)
        if callable(script):
            self._function = script
            return
        by_name = script if isinstance(script, Mapping) else {"*": list(script)}
        for name, replies in by_name.items():
            listed: Any = replies
            is_list = isinstance(replies, list | tuple)
            self._sizes[name] = len(listed) if is_list else 0
            self._replies[name] = iter(list(listed)) if is_list else itertools.repeat(listed)

    def next(self, request: _Request, name: str = "*") -> _Reply:
        """Return the reply to a request."""
        if self._function is not None:
            return self._function(request)
        name = name if name in self._replies else "*"
        for reply in self._replies.get(name, ()):
            return reply
        size = self._sizes.get(name, 0)
        raise ScriptEndError(f"the script has {size} turns, and turn {size + 1} was requested")


def read_script(path: str | PathLike[str]) -> list[Say]:
    """Read turns from a JSON file: an array of texts and objects with the fields of `Say`."""
    content = load_script(path)
    if not isinstance(content, list):
        raise _unreadable(path, f"must be an array of turns, not {_kind(content)}")
    try:
        return _TURNS.validate_python(content)
    except ValidationError as error:
        problems = [_problem(str(path), fault) for fault in error.errors(include_url=False)]
        raise ConfigError.from_problems(problems) from None


def load_script(path: str | PathLike[str]) -> object:
    """Parse a script file as JSON."""
    try:
        return json.loads(Path(path).read_text("utf-8-sig"))
    except OSError as error:
        raise _unreadable(path, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _unreadable(path, f"is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _unreadable(path, f"is not JSON: {error.msg} at {where}") from error
    except RecursionError as error:
        raise _unreadable(path, "is nested too deeply") from error


_TURNS: Final = TypeAdapter(list[Annotated[Say, BeforeValidator(_turn_fields)]])


def _problem(file: str, fault: Any) -> Problem:
    place, kind, value = fault["loc"], fault["type"], fault["input"]
    code, advice = "invalid_value", None
    match kind:
        case "unexpected_keyword_argument" | "string_pattern_mismatch":
            *place, key = (step for step in place if step != "[key]")
            allowed = _keys_at(place)
            hint = f"{meant} " if (meant := did_you_mean(str(key), allowed)) else ""
            message, code = f'unknown key "{key}"', "unknown_key"
            advice = f"{hint}allowed: {', '.join(allowed)}"
        case "missing" | "string_too_short":
            *place, _ = place
            message = "a call needs the name of a tool"
        case "dataclass_type":
            text = "" if "calls" in place else "a text or "
            allowed = ", ".join(_keys_at(place))
            message = f"must be {text}an object with {allowed}, not {_kind(value)}"
        case _:
            message = f"{fault['msg'].replace('Input should', 'must', 1)}, not {_kind(value)}"
            message = message.replace("tuple", "array").replace("dictionary", "object")
    item, *keys = place
    path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    path = f"item {int(str(item)) + 1}{path}"
    return Problem(file=file, path=path, code=code, message=message, suggestion=advice)


def _keys_at(place: Sequence[object]) -> list[str]:
    if "usage" in place:
        return list(USAGE_KEYS)
    return [each.name for each in fields(Call if "calls" in place else Say)]


def _unreadable(path: str | PathLike[str], message: str) -> ConfigError:
    problem = Problem(
        file=str(path), path="", code="file_unreadable", message=f"the script {message}"
    )
    return ConfigError.from_problems([problem])


def _kind(value: object) -> str:
    return "null" if value is None else _KINDS.get(type(value), "an object")


_KINDS: Final[dict[type, str]] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "an array",
}
