"""Public names: legal for every model provider, stable, and never given twice."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from plait.catalog.tool import Tool

_LONGEST = 64
_HASH_CHARACTERS = 8
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")


def with_public_names(tools: Iterable[Tool]) -> list[Tool]:
    """Name the tools: those whose names would clash get their server's name in front."""
    listed = list(tools)
    plain = Counter(legal_name(tool.wire_name) for tool in listed)
    named: list[Tool] = []
    taken: set[str] = set()
    for tool in listed:
        name = legal_name(tool.wire_name)
        if plain[name] > 1:
            name = legal_name(f"{tool.server}__{tool.wire_name}")
        if name in taken:
            name = _marked(name, f"{tool.server}/{tool.wire_name}")
        taken.add(name)
        named.append(replace(tool, name=name))
    return named


def legal_name(name: str) -> str:
    """Return the name with only `[A-Za-z0-9_-]`, at most 64 long; a changed one keeps a hash."""
    legal = _ILLEGAL.sub("_", name)
    return legal if 0 < len(legal) <= _LONGEST else _marked(legal, name)


def _marked(name: str, identity: str) -> str:
    mark = hashlib.sha256(identity.encode()).hexdigest()[:_HASH_CHARACTERS]
    return f"{name[: _LONGEST - _HASH_CHARACTERS - 1]}_{mark}"
