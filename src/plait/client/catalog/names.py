"""Public names of tools: valid for every model provider, stable, and unique."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
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
    """How public names are built from the names of servers and tools."""

    separator: Literal["", "_", "__"] = ""
    """What joins the server's name to the tool's; empty leaves the server out."""
    extra: str = ""
    """Put in front of every name, with `__` after it."""
    on_collision: Literal["prefix", "error"] = "prefix"
    """On a name collision: add the server's name, or raise an error."""


def with_public_names(
    tools: Iterable[Tool], policy: NamePolicy | None = None, *, taken: Collection[str] = ()
) -> list[Tool]:
    """Name the tools, in their order; the names do not depend on it.

    A unique name is kept. Colliding and `taken` ones get the server's name as a prefix, and a hash
    if that is not enough. A tool that one server lists twice is numbered.
    """
    policy = policy or NamePolicy()
    listed = list(tools)
    preferred = [_preferred_name(tool, policy) for tool in listed]
    unique = set(preferred)
    if len(unique) == len(listed) and unique.isdisjoint(taken):
        return [tool.renamed(name) for tool, name in zip(listed, preferred, strict=True)]
    if policy.on_collision == "error":
        _reject_collisions(listed, preferred, taken)
    clear = [
        legal_name(f"{_extra(policy)}{tool.server}{_CLEAR_SEPARATOR}{_own_name(tool)}")
        for tool in listed
    ]
    names: dict[int, str] = {}
    for candidates in (preferred, clear):
        names |= _unique_names(candidates, names, {*taken, *names.values()})
    used = {*taken, *names.values()}
    nameless = (index for index in range(len(listed)) if index not in names)
    for index in sorted(nameless, key=lambda index: _identity(listed[index])):
        names[index] = _hashed_name(clear[index], listed[index], used)
        used.add(names[index])
    return [tool.renamed(names[index]) for index, tool in enumerate(listed)]


def collisions(
    tools: Iterable[Tool], policy: NamePolicy | None = None
) -> dict[str, tuple[Tool, ...]]:
    """Find colliding names; one tool that is listed twice does not count."""
    listed = list(tools)
    preferred = [_preferred_name(tool, policy or NamePolicy()) for tool in listed]
    if len(set(preferred)) == len(preferred):
        return {}
    return {
        name: tuple(claimants)
        for name, claimants in _claims(listed, preferred).items()
        if len({_identity(tool) for tool in claimants}) > 1
    }


def legal_name(name: str) -> str:
    """Return the name with only `[A-Za-z0-9_-]`, at most 64 long; a cut one keeps a hash."""
    legal = _ILLEGAL.sub("_", name)
    return legal if 0 < len(legal) <= _LONGEST else _marked(legal, name)


def _preferred_name(tool: Tool, policy: NamePolicy) -> str:
    renamed = tool.override is not None and tool.override.name is not None
    prefix = "" if renamed or not policy.separator else f"{tool.server}{policy.separator}"
    return legal_name(f"{_extra(policy)}{prefix}{_own_name(tool)}")


def _own_name(tool: Tool) -> str:
    name = tool.override.name if tool.override is not None else None
    return tool.wire_name if name is None else name


def _extra(policy: NamePolicy) -> str:
    return f"{policy.extra}{_CLEAR_SEPARATOR}" if policy.extra else ""


def _identity(tool: Tool) -> tuple[str, str]:
    return tool.server, tool.wire_name


def _claims(tools: Sequence[Tool], preferred: Sequence[str]) -> dict[str, list[Tool]]:
    claims: defaultdict[str, list[Tool]] = defaultdict(list)
    for tool, name in zip(tools, preferred, strict=True):
        claims[name].append(tool)
    return claims


def _reject_collisions(
    tools: Sequence[Tool], preferred: Sequence[str], taken: Collection[str]
) -> None:
    for name, claimants in sorted(_claims(tools, preferred).items()):
        owners = sorted({tool.full_name for tool in claimants})
        if len(owners) == 1 and name in taken:
            owners.append("one that is already there")
        if len(owners) > 1:
            text = (
                f'several tools would be called "{name}": {", ".join(owners)} '
                "(set prefix_tool_name_with_server_name, rename one with an override, "
                "or exclude one)"
            )
            raise ConfigError(text, server=", ".join(sorted({tool.server for tool in claimants})))


def _unique_names(
    candidates: Sequence[str], named: Collection[int], used: Collection[str]
) -> dict[int, str]:
    """Return the unique candidates of the tools without a name."""
    open_ones = {index: name for index, name in enumerate(candidates) if index not in named}
    times = Counter(open_ones.values())
    free = {name for name in times if times[name] == 1 and name not in used}
    return {index: name for index, name in open_ones.items() if name in free}


def _hashed_name(name: str, tool: Tool, used: Collection[str]) -> str:
    numbered = (f"{tool.full_name}#{number}" for number in count(2))
    marked = (_marked(name, one) for one in chain([tool.full_name], numbered))
    return next(candidate for candidate in marked if candidate not in used)


def _marked(name: str, identity: str) -> str:
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: _LONGEST - _HASH_CHARACTERS - 1]}_{digest[:_HASH_CHARACTERS]}"


def free_name(name: str, taken: Collection[str]) -> str:
    """Return the name, with a prefix if another tool has it."""
    while name in taken:
        name = f"mcp_{name}"
    return name
