"""Public names: legal for every model provider, stable, and never given twice."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import count

from plait.catalog.tool import Tool

_LONGEST = 64
_HASH_CHARACTERS = 8
_ILLEGAL = re.compile(r"[^A-Za-z0-9_-]")


def with_public_names(tools: Iterable[Tool]) -> list[Tool]:
    """Name the tools: those whose names would clash get their server's name in front.

    The names do not depend on the order; only a tool that one server lists twice is numbered.
    """
    listed = list(tools)
    plain = [legal_name(tool.wire_name) for tool in listed]
    clashing = _repeated(plain)
    prefixed = [
        legal_name(f"{tool.server}__{tool.wire_name}") if name in clashing else name
        for tool, name in zip(listed, plain, strict=True)
    ]
    clashing = _repeated(prefixed)
    taken: set[str] = set()
    named: list[Tool] = []
    for tool, name in zip(listed, prefixed, strict=True):
        identity = f"{tool.server}/{tool.wire_name}"
        unique = _marked(name, identity) if name in clashing else name
        for number in count(2):
            if unique not in taken:
                break
            unique = _marked(name, f"{identity}#{number}")
        taken.add(unique)
        named.append(replace(tool, name=unique))
    return named


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, times in Counter(names).items() if times > 1}


def legal_name(name: str) -> str:
    """Return the name with only `[A-Za-z0-9_-]`, at most 64 long; a changed one keeps a hash."""
    legal = _ILLEGAL.sub("_", name)
    return legal if 0 < len(legal) <= _LONGEST else _marked(legal, name)


def _marked(name: str, identity: str) -> str:
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: _LONGEST - _HASH_CHARACTERS - 1]}_{digest[:_HASH_CHARACTERS]}"
