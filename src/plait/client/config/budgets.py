"""How much a tool may answer, and how often tools may be called, as validated data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from plait.client.config.durations import read_seconds
from plait.client.config.key_table import Key, KeyTable, read_table
from plait.client.config.raw_value import UNSET, RawValue, Unset, as_mapping

T = TypeVar("T")

_BYTES_PER_TOKEN = 4
"""What a token is estimated at where nothing counts them."""

_LEAST_TOKENS = 250
"""A smaller answer would consist of nothing but the note that it is cut."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?(B|kB|KB|MB|GB)")
_UNITS = {"B": 1, "kB": 1_000, "KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How large one result may be; where both are set, both hold."""

    tokens: int | None = None

    bytes: int | None = None

    @property
    def is_none(self) -> bool:
        """Whether it limits nothing."""
        return self.tokens is None and self.bytes is None

    @property
    def most_bytes(self) -> int:
        """The limit in bytes of UTF-8, with tokens as they are estimated."""
        estimate = None if self.tokens is None else self.tokens * _BYTES_PER_TOKEN
        return min(bound for bound in (estimate, self.bytes) if bound is not None)


NO_LIMIT = Limit()
"""Any size will do, whatever else is said about other tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultBudget:
    """How large the results of tools may be, and how long what was cut off is kept."""

    default: Limit | None = None
    """`None` leaves it to the client, whose `None` is no limit."""

    tools: Mapping[str, Limit] = field(default_factory=dict[str, Limit])
    """By `tool`, `server/tool` or glob; the first that fits counts, exact names before globs."""

    keep_seconds: float = 1800.0
    """How long a whole result is kept after it was last read from."""

    keep_bytes: int = 256_000_000
    """How much is kept in all; what was not read for longest goes first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBudget:
    """How many calls a run may make."""

    calls: int | None = None
    """In all; `None` is no limit."""

    tools: Mapping[str, int] = field(default_factory=dict[str, int])
    """By `tool`, `server/tool` or glob; the calls of all tools that fit one are added up."""


def is_named_by(pattern: str, server: str, tool: str) -> bool:
    """Say whether a tool goes by a name or glob, which may begin with a server and `/`."""
    return fnmatchcase(f"{server}/{tool}" if "/" in pattern else tool, pattern)


def limit_for(
    server: str, tool: str, own: ResultBudget | None, common: ResultBudget | None
) -> Limit | None:
    """Find the limit of a tool: by its name, its server's word, then that of the client."""
    if own is None and common is None:
        return None
    budgets = [budget for budget in (own, common) if budget is not None]
    by_tool = (_limit_by_tool(server, tool, budget.tools) for budget in budgets)
    found = [limit for limit in (*by_tool, *(one.default for one in budgets)) if limit is not None]
    return found[0] if found and not found[0].is_none else None


def _limit_by_tool(server: str, tool: str, tools: Mapping[str, Limit]) -> Limit | None:
    exact = tools.get(f"{server}/{tool}") or tools.get(tool)
    if exact is not None:
        return exact
    fitting = (one for pattern, one in tools.items() if is_named_by(pattern, server, tool))
    return next(fitting, None)


def read_result_budget(raw: RawValue) -> ResultBudget | Unset:
    """Read tokens, a size, or an object with limits for all tools and for single ones."""
    if isinstance(raw.value, ResultBudget):
        return raw.value
    if isinstance(raw.value, Limit):
        return ResultBudget(default=raw.value)
    if as_mapping(raw.value) is None:
        limit = _read_limit(raw)
        return UNSET if limit is UNSET else ResultBudget(default=limit)
    read = read_table(raw, _RESULT_KEYS)
    written = {name: read.pop(name) for name in ("tokens", "bytes") if name in read}
    budget = ResultBudget(**read)
    return replace(budget, default=Limit(**written)) if written else budget


def read_call_budget(raw: RawValue) -> CallBudget | Unset:
    """Read the number of calls, or an object with numbers for all tools and for single ones."""
    if isinstance(raw.value, CallBudget):
        return raw.value
    if as_mapping(raw.value) is None:
        calls = _read_number(raw, least=0)
        return UNSET if calls is UNSET else CallBudget(calls=calls)
    return CallBudget(**read_table(raw, _CALL_KEYS))


def _read_limit(raw: RawValue) -> Limit | Unset:
    """Read the limit of one result; false is none."""
    if raw.value is False:
        return NO_LIMIT
    if isinstance(raw.value, Limit):
        return raw.value
    if as_mapping(raw.value) is not None:
        written = read_table(raw, _LIMIT_KEYS)
        return Limit(**written) if written else UNSET
    if isinstance(raw.value, str) and "${" not in raw.value:
        size = _read_size(raw)
        return UNSET if size is UNSET else Limit(bytes=size)
    tokens = _read_tokens(raw)
    return UNSET if tokens is UNSET else Limit(tokens=tokens)


def _read_tokens(raw: RawValue) -> int | Unset:
    return _read_number(raw, least=_LEAST_TOKENS)


def _read_size(raw: RawValue) -> int | Unset:
    """Read bytes: a number, or a text such as `200kB`."""
    least = _LEAST_TOKENS * _BYTES_PER_TOKEN
    if not isinstance(raw.value, str):
        return _read_number(raw, least=least)
    text = raw.text()
    if text is UNSET:
        return UNSET
    if text.isdecimal():
        return _read_number(replace(raw, value=int(text)), least=least)
    found = _SIZE.fullmatch(text)
    if found is None:
        return raw.reject("bad_value", "is not a size", 'write a number, or "200kB", "2MB"')
    size = int(float(found[1]) * _UNITS[found[2]])
    return _read_number(replace(raw, value=size), least=least)


def _read_number(raw: RawValue, *, least: int) -> int | Unset:
    value = raw.scalar()
    if value is UNSET:
        return UNSET
    if isinstance(value, bool) or not isinstance(value, int):
        return raw.wrong_type("a whole number")
    if value < least:
        return raw.reject("bad_number", f"must be at least {least}")
    return value


def _read_limits(raw: RawValue) -> dict[str, Limit] | Unset:
    if not raw.is_object("an object of tool names and limits"):
        return UNSET
    return _without_unset({name: _read_limit(entry) for name, entry in raw.entries()})


def _read_numbers(raw: RawValue) -> dict[str, int] | Unset:
    if not raw.is_object("an object of tool names and numbers of calls"):
        return UNSET
    return _without_unset({name: _read_number(entry, least=0) for name, entry in raw.entries()})


def _without_unset(read: Mapping[str, T | Unset]) -> dict[str, T]:
    return {name: value for name, value in read.items() if not isinstance(value, Unset)}


def _read_calls(raw: RawValue) -> Any:
    return _read_number(raw, least=0)


_LIMIT_KEYS = KeyTable(
    (Key("tokens", _read_tokens, "tokens"), Key("bytes", _read_size, "bytes")), noun="limit"
)

_RESULT_KEYS = KeyTable(
    (
        Key("tokens", _read_tokens, "tokens"),
        Key("bytes", _read_size, "bytes"),
        Key("default", _read_limit, "default"),
        Key("tools", _read_limits, "tools"),
        Key("keep_seconds", read_seconds, "keep_seconds", unit="seconds"),
        Key("keep_bytes", _read_size, "keep_bytes"),
    ),
    noun="result budget",
)

_CALL_KEYS = KeyTable(
    (Key("calls", _read_calls, "calls"), Key("tools", _read_numbers, "tools")), noun="call budget"
)
