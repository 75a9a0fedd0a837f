"""Public names: legal for every model provider, stable, and never given twice."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Literal

from plait.client.catalog.tool import Tool
from plait.errors import ConfigError

_LONGEST = 64
_HASH_CHARACTERS = 8
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")
_CLEAR_SEPARATOR = "__"


@dataclass(frozen=True, slots=True)
class NamePolicy:
    """How public names are made of the names of servers and tools."""

    separator: Literal["", "_", "__"] = ""
    """What joins the server's name to the tool's; empty leaves the server out."""

    extra: str = ""
    """Put in front of every name, with `__` after it."""

    on_collision: Literal["prefix", "error"] = "prefix"
    """What to do when a name is wanted twice: add the server's name, or refuse."""


def with_public_names(
    tools: Iterable[Tool], policy: NamePolicy | None = None, *, taken: Collection[str] = ()
) -> list[Tool]:
    """Name the tools, in their order; the names do not depend on it.

    A name that only one tool wants is kept. Those that several want, or that are `taken`, get the
    server's name in front, and a hash where that does not help. A tool that one server lists
    twice is numbered.

    Raises:
        ConfigError: A name is wanted twice, and the policy is to refuse.
    """
    policy = policy or NamePolicy()
    listed = list(tools)
    wanted = [_wanted_name(tool, policy) for tool in listed]
    if policy.on_collision == "error":
        _refuse_collisions(listed, wanted, taken)
    clear = [_clear_name(tool, policy) for tool in listed]
    names: dict[int, str] = {}
    for candidates in (wanted, clear):
        names |= _given_once(candidates, names, {*taken, *names.values()})
    used = {*taken, *names.values()}
    nameless = (index for index in range(len(listed)) if index not in names)
    for index in sorted(nameless, key=lambda index: _identity(listed[index])):
        names[index] = _hashed_name(clear[index], listed[index], used)
        used.add(names[index])
    return [replace(tool, name=names[index]) for index, tool in enumerate(listed)]


def collisions(
    tools: Iterable[Tool], policy: NamePolicy | None = None
) -> dict[str, tuple[Tool, ...]]:
    """Find the names that several tools want; one tool that is listed twice does not count."""
    listed = list(tools)
    wanted = [_wanted_name(tool, policy or NamePolicy()) for tool in listed]
    return {
        name: claimants
        for name, claimants in _claims(listed, wanted).items()
        if len({_identity(tool) for tool in claimants}) > 1
    }


def legal_name(name: str) -> str:
    """Return the name with only `[A-Za-z0-9_-]`, at most 64 long; a cut one keeps a hash."""
    legal = _ILLEGAL.sub("_", name)
    return legal if 0 < len(legal) <= _LONGEST else _marked(legal, name)


def _wanted_name(tool: Tool, policy: NamePolicy) -> str:
    renamed = tool.override is not None and tool.override.name is not None
    prefix = "" if renamed or not policy.separator else f"{tool.server}{policy.separator}"
    return legal_name(f"{_extra(policy)}{prefix}{_own_name(tool)}")


def _clear_name(tool: Tool, policy: NamePolicy) -> str:
    return legal_name(f"{_extra(policy)}{tool.server}{_CLEAR_SEPARATOR}{_own_name(tool)}")


def _own_name(tool: Tool) -> str:
    given = tool.override.name if tool.override is not None else None
    return tool.wire_name if given is None else given


def _extra(policy: NamePolicy) -> str:
    return f"{policy.extra}{_CLEAR_SEPARATOR}" if policy.extra else ""


def _identity(tool: Tool) -> tuple[str, str]:
    return tool.server, tool.wire_name


def _claims(tools: Sequence[Tool], wanted: Sequence[str]) -> dict[str, tuple[Tool, ...]]:
    claims: defaultdict[str, list[Tool]] = defaultdict(list)
    for tool, name in zip(tools, wanted, strict=True):
        claims[name].append(tool)
    return {name: tuple(claimants) for name, claimants in claims.items()}


def _refuse_collisions(
    tools: Sequence[Tool], wanted: Sequence[str], taken: Collection[str]
) -> None:
    for name, claimants in sorted(_claims(tools, wanted).items()):
        owners = sorted({f"{tool.server}/{tool.wire_name}" for tool in claimants})
        if len(owners) == 1 and name in taken:
            owners.append("one that is already there")
        if len(owners) > 1:
            raise ConfigError(
                f'several tools would be called "{name}": {", ".join(owners)} '
                "(set prefix_tool_name_with_server_name, rename one with an override, "
                "or exclude one)",
                server=", ".join(sorted({tool.server for tool in claimants})),
            )


def _given_once(
    candidates: Sequence[str], named: Collection[int], used: Collection[str]
) -> dict[int, str]:
    """Keep the candidates that only one of the tools without a name has."""
    wanted = {index: name for index, name in enumerate(candidates) if index not in named}
    times = Counter(wanted.values())
    return {index: name for index, name in wanted.items() if times[name] == 1 and name not in used}


def _hashed_name(name: str, tool: Tool, used: Collection[str]) -> str:
    identity = f"{tool.server}/{tool.wire_name}"
    numbered = (f"{identity}#{number}" for number in count(2))
    marked = (_marked(name, one) for one in chain([identity], numbered))
    return next(candidate for candidate in marked if candidate not in used)


def _marked(name: str, identity: str) -> str:
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: _LONGEST - _HASH_CHARACTERS - 1]}_{digest[:_HASH_CHARACTERS]}"
