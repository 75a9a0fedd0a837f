"""Finding a tool again that goes by another name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any, cast

from plait.client.catalog.lock.entries import LockedTool

_NEAR = 0.8
"""Which share of words and arguments two tools have in common that are taken for one."""

_FEWEST = 4
"""Tools of which less than this is known are all alike."""

_MOST_PAIRS = 40_000

Tools = Mapping[str, LockedTool]

Features = Counter[str]


def find_renames(before: Tools, after: Tools) -> dict[str, str]:
    """Pair tools that are gone with tools that are new: the new name by the old one.

    Those with the same content come first, the nearest name of several; then those that are
    nearly the same.
    """
    pairs: dict[str, str] = {}
    by_essence = {name: tool.essence for name, tool in after.items()}
    for name, tool in before.items():
        essence = tool.essence
        same = [one for one in by_essence if by_essence[one] == essence and one not in taken(pairs)]
        if same:
            pairs[name] = max(same, key=lambda one, name=name: _likeness_of_names(name, one))
    rest_before = {name: tool for name, tool in before.items() if name not in pairs}
    rest_after = {name: tool for name, tool in after.items() if name not in taken(pairs)}
    for _, name, other in sorted(_near(rest_before, rest_after), reverse=True):
        if name not in pairs and other not in taken(pairs):
            pairs[name] = other
    return pairs


def find_swaps(before: Tools, after: Tools, names: Collection[str]) -> dict[str, str]:
    """Find names under which the content of another now is: whose content, by name.

    Both are names that were there and still are, and whose tools are not as they were.
    """
    known = {name: before[name] for name in names}
    moved: dict[str, str] = {}
    for name in names:
        tool, features = after[name], features_of(after[name])
        own = likeness(features, features_of(known[name]))
        others = [
            (1.0 if other.essence == tool.essence else likeness(features, features_of(other)), one)
            for one, other in known.items()
            if one != name and one not in moved.values()
        ]
        score, nearest = max(others, default=(0.0, ""))
        if score >= _NEAR and score > own:
            moved[name] = nearest
    return moved


def taken(pairs: Mapping[str, str]) -> Collection[str]:
    """Return the new names that are spoken for."""
    return pairs.values()


def _near(before: Tools, after: Tools) -> Iterator[tuple[float, str, str]]:
    if len(before) * len(after) > _MOST_PAIRS:
        return
    known = {name: features_of(tool) for name, tool in after.items()}
    for name, tool in before.items():
        features = features_of(tool)
        for other, others in known.items():
            score = likeness(features, others)
            if score >= _NEAR:
                yield score, name, other


def likeness(one: Features, other: Features) -> float:
    """Say how much two tools have in common, from 0 to 1."""
    size = one.total() + other.total()
    if min(one.total(), other.total()) < _FEWEST:
        return 0.0
    return 2 * (one & other).total() / size


def features_of(tool: LockedTool) -> Features:
    """Count the words of the description, and the arguments with their types."""
    words = re.findall(r"\w+", tool.description.lower())
    return Counter([*words, *_arguments("", tool.input_schema)])


def _arguments(path: str, schema: Any) -> Iterator[str]:
    for name, one in _entries(_entries(schema).get("properties")).items():
        yield f"{path}.{name}"
        yield f"{path}.{name}: {_entries(one).get('type')}"
        yield from _arguments(f"{path}.{name}", one)


def _entries(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _likeness_of_names(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()
