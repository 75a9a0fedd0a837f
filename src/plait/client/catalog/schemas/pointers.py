"""Find what a reference in a schema points to, without ever leaving the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from plait.client.catalog.schemas.keywords import DEFINITIONS, HOLD_MAP, HOLD_VALUE
from plait.client.catalog.schemas.values import is_list, is_mapping

Node = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """What a reference points to."""

    schema: Node | bool
    base: str
    """The address that references inside it are relative to."""
    name: str
    """What to call it."""


class Document:
    """A whole schema, and the places in it that have an address."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.size = 0
        """How many objects there are in it."""
        self.base = base_of(root, "")
        self._resources: dict[str, Node] = {"": root, self.base: root}
        self._anchors: dict[tuple[str, str], Node] = {}
        self._index()

    def find(self, reference: str, base: str) -> Target | None:
        """Return what a reference points to, or nothing when that is not in the document."""
        address, fragment = _split(reference)
        wanted = _joined(base, address) if address else base
        start = self._resources.get(wanted) or self._resources.get(address or self.base)
        if start is None:
            return None
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            anchored = self._anchors.get((wanted, fragment)) or self._anchors.get(("", fragment))
            return None if anchored is None else Target(anchored, wanted, fragment)
        found = _walk(start, wanted, fragment)
        # Many generators number references from the top, whatever `$id` stands in between.
        return found or (_walk(self.root, self.base, fragment) if not address else None)

    def _index(self) -> None:
        waiting: list[tuple[Node, str]] = [(self.root, "")]
        seen: set[int] = set()
        while waiting:
            node, outer = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            base = base_of(node, outer)
            if base != outer:
                self._resources.setdefault(base, node)
            for anchor in _anchors_of(node):
                self._anchors.setdefault((base, anchor), node)
                self._anchors.setdefault(("", anchor), node)
            waiting.extend((inner, base) for inner in _inside(node))
        self.size = len(seen)


def base_of(node: Node, outer: str) -> str:
    """Return the address that references inside a schema are relative to."""
    own = node.get("$id")
    if not isinstance(own, str):
        return outer
    address, _ = _split(own)
    return _joined(outer, address) if address else outer


def _walk(start: Node, base: str, pointer: str) -> Target | None:
    here: object = start
    title = start.get("title")
    name = title if isinstance(title, str) else "the whole schema"
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if is_mapping(here):
            here = here.get(name)
        elif is_list(here) and name.isdecimal() and int(name) < len(here):
            here = here[int(name)]
        else:
            return None
        if is_mapping(here):
            base = base_of(here, base)
    return Target(here, base, name) if isinstance(here, bool) or is_mapping(here) else None


def _anchors_of(node: Node) -> Iterator[str]:
    for key in ("$anchor", "$dynamicAnchor"):
        if isinstance(node.get(key), str):
            yield node[key]
    # Before `$anchor` there was `"$id": "#name"`.
    if isinstance(node.get("$id"), str) and (fragment := _split(node["$id"])[1]):
        yield fragment


def _inside(node: Node) -> Iterator[Node]:
    for key, value in node.items():
        if key in HOLD_VALUE:
            continue
        maps = (key in HOLD_MAP or key in DEFINITIONS) and is_mapping(value)
        inner = list(value.values()) if maps else value
        for each in inner if is_list(inner) else [inner]:
            if is_mapping(each):
                yield each


def _split(reference: str) -> tuple[str, str]:
    try:
        address, fragment = urldefrag(reference)
    except ValueError:  # not an address at all
        return reference, ""
    return address, fragment


def _joined(base: str, address: str) -> str:
    try:
        return urljoin(base, address)
    except ValueError:
        return address
