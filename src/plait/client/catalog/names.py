"""Public names of tools: valid for every model provider, stable, and unique."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import chain, count
from typing import Literal

from plait.client.catalog.tool import Tool
from plait.errors import ConfigError

MAX_NAME_CHARS = 64
"""The lowest limit of a large provider."""
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
        for name, claimants in sorted(collisions(listed, policy, taken=taken).items()):
            owners = sorted({tool.full_name for tool in claimants})
            owners += ["one that is already there"] if name in taken else []
            text = (
                f'several tools would be called "{name}": {", ".join(owners)} '
                "(set prefix_tool_name_with_server_name, rename one with an override, "
                "or exclude one)"
            )
            raise ConfigError(text, server=", ".join(sorted({tool.server for tool in claimants})))
    # The names of the server and the tool are joined so that nobody mistakes one for another's.
    bare = NamePolicy(separator=_CLEAR_SEPARATOR, extra=policy.extra)
    clear = [_preferred_name(tool, bare, keeps_own=False) for tool in listed]
    names: dict[int, str] = {}
    for candidates in (preferred, clear):
        nameless = {index: name for index, name in enumerate(candidates) if index not in names}
        used = {*taken, *names.values()}
        times = Counter(nameless.values())
        names |= {
            index: name for index, name in nameless.items() if times[name] == 1 and name not in used
        }
    used = {*taken, *names.values()}
    for index in sorted(
        (index for index in range(len(listed)) if index not in names),
        key=lambda index: _identity(listed[index]),
    ):
        tool = listed[index]
        numbered = (f"{tool.full_name}#{number}" for number in count(2))
        marked = (_marked(clear[index], one) for one in chain([tool.full_name], numbered))
        names[index] = next(candidate for candidate in marked if candidate not in used)
        used.add(names[index])
    return [tool.renamed(names[index]) for index, tool in enumerate(listed)]


def collisions(
    tools: Iterable[Tool], policy: NamePolicy | None = None, *, taken: Collection[str] = ()
) -> dict[str, tuple[Tool, ...]]:
    """Find colliding and `taken` names; one tool that is listed twice does not count."""
    claims: defaultdict[str, list[Tool]] = defaultdict(list)
    for tool in tools:
        claims[_preferred_name(tool, policy or NamePolicy())].append(tool)
    return {
        name: tuple(claimants)
        for name, claimants in claims.items()
        if name in taken or len({_identity(tool) for tool in claimants}) > 1
    }


def legal_name(name: str) -> str:
    """Return the name with only `[A-Za-z0-9_-]`, at most 64 long; a cut one keeps a hash."""
    legal = _ILLEGAL.sub("_", name)
    return legal if 0 < len(legal) <= MAX_NAME_CHARS else _marked(legal, name)


def _preferred_name(tool: Tool, policy: NamePolicy, *, keeps_own: bool = True) -> str:
    """Return the name by a policy; with `keeps_own`, one that the user chose has no server."""
    chosen = tool.override.name if tool.override is not None else None
    extra = f"{policy.extra}{_CLEAR_SEPARATOR}" if policy.extra else ""
    has_server = policy.separator and (chosen is None or not keeps_own)
    prefix = f"{tool.server}{policy.separator}" if has_server else ""
    return legal_name(f"{extra}{prefix}{tool.wire_name if chosen is None else chosen}")


def _identity(tool: Tool) -> tuple[str, str]:
    return tool.server, tool.wire_name


def _marked(name: str, identity: str) -> str:
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: MAX_NAME_CHARS - _HASH_CHARACTERS - 1]}_{digest[:_HASH_CHARACTERS]}"


def free_name(name: str, taken: Collection[str]) -> str:
    """Return the name, with a prefix if another tool has it."""
    while name in taken:
        name = f"mcp_{name}"
    return name
