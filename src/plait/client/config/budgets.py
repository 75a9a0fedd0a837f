"""How much servers may send, and agents get: limits, budgets and deferred tools, as data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Final, TypeVar

from plait._support.durations import checked_seconds
from plait.client.config.raw_value import Key, KeyTable, RawValue, as_mapping, keys_with, read_table
from plait.client.config.value_types import (
    read_count,
    read_patterns,
    read_seconds,
    read_whole_number,
)

T = TypeVar("T")
_BYTES_PER_TOKEN = 4
"""The estimated size of a token."""
_MIN_TOKENS = 250
"""A smaller result would have room only for the note that it is cut."""

_read_tokens = partial(read_whole_number, minimum=_MIN_TOKENS)
_read_calls = partial(read_whole_number, minimum=0)

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(B|kB|KB|MB|GB)?")
_UNITS = {None: 1, "B": 1, "kB": 1_000, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The maximum size of one result; if both are set, both apply."""

    tokens: int | None = None
    bytes: int | None = None

    @property
    def is_none(self) -> bool:
        """Whether there is no limit."""
        return self.tokens is None and self.bytes is None

    @property
    def most_bytes(self) -> int:
        """The limit in bytes of UTF-8, with tokens estimated."""
        estimate = None if self.tokens is None else self.tokens * _BYTES_PER_TOKEN
        return min(bound for bound in (estimate, self.bytes) if bound is not None)


NO_LIMIT = Limit()
"""No limit, even if other tools have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultBudget:
    """Maximum sizes of tool results, and how long the full results are kept."""

    default: Limit | None = None
    """`None` uses the client's limit; on the client it means no limit."""
    tools: Mapping[str, Limit] = field(default_factory=dict[str, Limit])
    """By `tool`, `server/tool` or glob; exact names win over globs, then the first match."""
    keep_seconds: float = 1800.0
    """How long a full result is kept after it was last read."""
    keep_bytes: int = 256_000_000
    """Total size kept; the least recently read results are dropped first."""

    def __post_init__(self) -> None:
        checked_seconds(self.keep_seconds, "keep_seconds", may_be_zero=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBudget:
    """The maximum number of calls in a run."""

    calls: int | None = None
    """In total; `None` is no limit."""
    tools: Mapping[str, int] = field(default_factory=dict[str, int])
    """By `tool`, `server/tool` or glob; the calls of all matching tools are added up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingLimits:
    """What a server may send; more is refused, with an error or a note that names the limit."""

    message_bytes: int = 32_000_000
    """One message: a line, a body after decompression, an event or a WebSocket message."""
    values: int = 500_000
    """Values in one message, such as numbers and objects; each takes far more memory than bytes."""
    tools: int = 10_000
    """The tools of a list; further ones are left out."""
    schema_entries: int = 5_000
    """Entries in the schemas of one tool; a tool with more is left out."""


DEFAULT_LIMITS = IncomingLimits()


AUTO_TOKENS: Final = 10_000
"""`auto` defers tools above this size: a twentieth of a usual context window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferral:
    """Which tools are deferred, and when."""

    tools: tuple[object, ...] | None = None
    """Patterns as in `include`; `None` is all tools, an empty tuple none."""
    over_tokens: int | None = None
    """Defer only if the tools take more tokens than this; `None` is always."""
    native: bool = False
    """Whether to use the tool search of the model's provider, if it has one."""

    @property
    def is_off(self) -> bool:
        """Whether no tool is ever deferred."""
        return self.tools == ()


NO_DEFERRAL: Final = Deferral(tools=())
_WORDS: Final = {"auto": Deferral(over_tokens=AUTO_TOKENS), "native": Deferral(native=True)}


def is_named_by(pattern: str, server: str, tool: str) -> bool:
    """Return whether a tool matches a name or glob, which may start with a server and `/`."""
    return fnmatchcase(f"{server}/{tool}" if "/" in pattern else tool, pattern)


def limit_for(
    server: str, tool: str, own: ResultBudget | None, common: ResultBudget | None
) -> Limit | None:
    """Find the limit of a tool: by its name, then the server's default, then the client's."""
    budgets = [budget for budget in (own, common) if budget is not None]
    by_tool = (value_by_tool(budget.tools, server, tool) for budget in budgets)
    defaults = (budget.default for budget in budgets)
    limit = next((limit for limit in (*by_tool, *defaults) if limit is not None), None)
    return None if limit == NO_LIMIT else limit


def value_by_tool(values: Mapping[str, T], server: str, tool: str) -> T | None:
    """Look a tool up by `server/tool`, by its name, then by the first glob that matches."""
    for name in (f"{server}/{tool}", tool):
        if name in values:
            return values[name]
    return next((value for glob, value in values.items() if is_named_by(glob, server, tool)), None)


def read_result_budget(raw: RawValue) -> ResultBudget:
    """Read tokens, a size, or an object with limits for all tools and for single ones."""
    if isinstance(raw.value, ResultBudget):
        return raw.value
    if isinstance(raw.value, Limit) or as_mapping(raw.value) is None:
        return ResultBudget(default=_read_limit(raw))
    values = read_table(raw, _RESULT_KEYS)
    limit = {name: values.pop(name) for name in ("tokens", "bytes") if name in values}
    budget = ResultBudget(**values)
    return replace(budget, default=Limit(**limit)) if limit else budget


def read_call_budget(raw: RawValue) -> CallBudget:
    """Read the number of calls, or an object with numbers for all tools and for single ones."""
    if isinstance(raw.value, CallBudget):
        return raw.value
    if as_mapping(raw.value) is None:
        return CallBudget(calls=_read_calls(raw))
    return CallBudget(**read_table(raw, _CALL_KEYS))


def read_incoming_limits(raw: RawValue) -> IncomingLimits:
    """Read an object of limits; what it leaves out has its default."""
    if isinstance(raw.value, IncomingLimits):
        return raw.value
    return IncomingLimits(**read_table(raw, _INCOMING_KEYS))


def read_deferral(raw: RawValue) -> Deferral:
    """Read true, false, `auto`, `native`, a number of tokens, or a list of tools."""
    value = raw.scalar()
    if isinstance(value, int) and not isinstance(value, bool):
        return Deferral(over_tokens=read_count(raw))
    if isinstance(value, str):
        if value in _WORDS:
            return _WORDS[value]
        hint = 'write true, "auto", "native", a number of tokens, or a list of tools'
        raw.reject("unknown_value", "is not a way to defer tools", hint)
    return read_server_deferral(raw)


def read_server_deferral(raw: RawValue) -> Deferral:
    """Read true, false, or a list of tools; the other ways apply to all servers together."""
    if isinstance(raw.value, Deferral):
        return raw.value
    value = raw.scalar()
    if isinstance(value, bool):
        return Deferral() if value else NO_DEFERRAL
    if isinstance(value, str | int | float):
        raw.reject_type("true, false or a list of tools")
    return Deferral(tools=read_patterns(raw))


def _read_limit(raw: RawValue) -> Limit:
    """Read the limit of one result; false is no limit."""
    if raw.value is False:
        return NO_LIMIT
    if isinstance(raw.value, Limit):
        return raw.value
    if as_mapping(raw.value) is not None:
        return Limit(**read_table(raw, _LIMIT_KEYS))
    if isinstance(raw.value, str) and "${" not in raw.value:
        return Limit(bytes=_read_size(raw))
    return Limit(tokens=_read_tokens(raw))


def _read_size(raw: RawValue) -> int:
    """Read bytes: a number, or a text such as `200kB`."""
    if isinstance(raw.value, str):
        text = raw.text()
        size = _SIZE.fullmatch(text)
        if size is None:
            raw.reject("bad_value", "is not a size", 'write a number, or "200kB", "2MB"')
        raw = replace(raw, value=int(float(size[1]) * _UNITS[size[2]]))
    return read_whole_number(raw, minimum=_MIN_TOKENS * _BYTES_PER_TOKEN)


_SIZE_KEYS = (Key("tokens", _read_tokens), Key("bytes", _read_size))
_LIMIT_KEYS = KeyTable(_SIZE_KEYS, noun="limit")

_RESULT_KEYS = KeyTable(
    (
        *_SIZE_KEYS,
        Key("default", _read_limit),
        Key(
            "tools", lambda raw: raw.read_entries(_read_limit, "an object of tool names and limits")
        ),
        Key("keep_seconds", read_seconds, unit="seconds"),
        Key("keep_bytes", _read_size),
    ),
    noun="result budget",
)

_INCOMING_KEYS = KeyTable(
    (Key("message_bytes", _read_size), *keys_with(read_count, "values", "tools", "schema_entries")),
    noun="limits",
)

_CALL_KEYS = KeyTable(
    (
        Key("calls", _read_calls),
        Key(
            "tools",
            lambda raw: raw.read_entries(
                _read_calls, "an object of tool names and numbers of calls"
            ),
        ),
    ),
    noun="call budget",
)
