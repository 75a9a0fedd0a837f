"""Inlining the references of a schema, without fetching anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from plait.client.catalog.allowance import take_step
from plait.client.catalog.schemas.clean import clean
from plait.client.catalog.schemas.describe import join_descriptions
from plait.client.catalog.schemas.keywords import (
    ADDRESSES,
    ANNOTATIONS,
    ARRAY_SHAPE,
    CONDITION,
    DEFINITIONS,
    HOLD_MAP,
    HOLD_SCHEMAS,
    HOLD_VALUE,
    OBJECT_SHAPE,
    REFERENCES,
    TYPES,
    UNIONS,
    map_children,
    step_into,
)
from plait.client.catalog.schemas.plain_schema import plain_size
from plait.client.catalog.schemas.provider_schema import Notes, ProviderSchema
from plait.client.catalog.schemas.values import (
    MOST_DEPTH,
    Schema,
    as_list,
    as_schema,
    is_list,
    is_mapping,
    is_schema,
    plain,
)

Node = Mapping[str, Any]

_KNOWN: Final = HOLD_SCHEMAS | HOLD_VALUE | {"dependencies"}
_HOLD_NAMES: Final = HOLD_MAP | {"dependencies", "dependentRequired"}


class _Target(NamedTuple):
    schema: Node | bool
    base: str
    """The base URI of references inside it."""
    name: str


class _Document:
    """A schema, indexed by `$id` and anchors."""

    def __init__(self, root: Node) -> None:
        self.root = root
        self.base = base_of(root, "")
        self._resources: dict[str, Node] = {"": root, self.base: root}
        self._anchors: dict[tuple[str, str], Node] = {}
        self._plain_sizes: dict[int, int] = {}
        self.size = self._index()
        """How many objects there are in it."""

    def find(self, reference: str, base: str) -> _Target | None:
        address, fragment = _split(reference)
        uri = _joined(base, address) if address else base
        start = self._resources.get(uri) or self._resources.get(address or self.base)
        if start is None:
            return None
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            anchored = self._anchors.get((uri, fragment)) or self._anchors.get(("", fragment))
            return None if anchored is None else _Target(anchored, uri, fragment)
        found = _walk(start, uri, fragment)
        # Many generators resolve references from the root, ignoring any `$id` in between.
        return found or (_walk(self.root, self.base, fragment) if not address else None)

    def plain_size(self, node: Node) -> int:
        """Do what `plain_size` does, once for every schema that references repeat."""
        if (size := self._plain_sizes.get(id(node))) is None:
            size = self._plain_sizes[id(node)] = plain_size(node)
        return size

    def _index(self) -> int:
        size = 0
        waiting: list[tuple[Node, str]] = [(self.root, "")]
        while waiting:
            node, outer = waiting.pop()
            if id(node) in self._plain_sizes:
                continue
            inner_size = self.plain_size(node)
            size += inner_size or 1
            if inner_size:  # so that it has no address, and nothing in it
                continue
            base = base_of(node, outer)
            if base != outer:
                self._resources.setdefault(base, node)
            for anchor in _anchors_of(node):
                self._anchors.setdefault((base, anchor), node)
                self._anchors.setdefault(("", anchor), node)
            waiting.extend((inner, base) for inner in _inside(node))
        return size


def base_of(node: Node, outer: str) -> str:
    """Return the base URI of references inside a schema."""
    own = node.get("$id")
    address = _split(own)[0] if isinstance(own, str) else ""
    return _joined(outer, address) if address else outer


def _walk(start: Node, base: str, pointer: str) -> _Target | None:
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
    return _Target(here, base, name) if isinstance(here, bool) or is_mapping(here) else None


def _anchors_of(node: Node) -> Iterator[str]:
    for key in ("$anchor", "$dynamicAnchor"):
        if isinstance(node.get(key), str):
            yield node[key]
    # Before `$anchor` there was `"$id": "#name"`.
    if isinstance(node.get("$id"), str) and (fragment := _split(node["$id"])[1]):
        yield fragment


def _inside(node: Node) -> Iterator[Node]:
    for key, value in node.items():
        if key not in HOLD_VALUE:
            maps = (key in HOLD_MAP or key in DEFINITIONS) and is_mapping(value)
            inner = list(value.values()) if maps else value
            yield from filter(is_mapping, inner if is_list(inner) else [inner])


def _split(reference: str) -> tuple[str, str]:
    try:
        return urldefrag(reference)
    except ValueError:  # not an address at all
        return reference, ""


def _joined(base: str, address: str) -> str:
    try:
        return urljoin(base, address)
    except ValueError:
        return address


_MAX_INLINED = 1_000
"""Nested references can expand beyond memory; no model reads this much."""
_MAX_TYPE_DEPTH = 8
_GROUPS = (OBJECT_SHAPE, ARRAY_SHAPE | {"contains", "minContains", "maxContains"}, CONDITION)
"""Keywords that depend on each other, so that they cannot come from two schemas."""


def inline_refs(schema: object) -> ProviderSchema:
    """Inline every reference in a schema, and keep everything else.

    A recursive schema is left open at that point, with a description.
    Nothing is ever fetched: what is not in the schema allows anything.
    """
    notes = Notes()
    return ProviderSchema(_written(schema, notes, cleaned=False), notes.all)


def cleaned_schema(schema: object, notes: Notes) -> Schema:
    """Inline every reference, and convert all keywords into valid ones of JSON Schema 2020-12."""
    return _written(schema, notes, cleaned=True)


def _written(schema: object, notes: Notes, *, cleaned: bool) -> Schema:
    if is_mapping(schema):
        schema = _Writer(_Document(schema), notes, cleaned).write(schema, "", "", ())
    elif not isinstance(schema, bool):
        notes.add("", "not a schema, so anything is allowed", "invalid")
    return as_schema(schema)


class _Writer:
    def __init__(self, document: _Document, notes: Notes, cleaned: bool) -> None:
        self._document = document
        self._notes = notes
        self._cleaned = cleaned
        self._left = document.size + _MAX_INLINED

    def write(self, node: Any, path: str, outer: str, above: tuple[int, ...]) -> Any:
        """Return a schema without references; `above` are the schemas around it."""
        if not is_mapping(node):
            if self._cleaned and not isinstance(node, bool):
                self._notes.add(path, "not a schema, so anything is allowed", "invalid")
                return {}
            return plain(node)
        size = self._document.plain_size(node)
        self._left -= size or 1
        if self._left < 0 or len(above) >= MOST_DEPTH or id(node) in above:
            self._notes.add(path, "too large or too deep, left open", "recursion")
            return {}
        if size:
            take_step(size)
            return plain(node)
        base = base_of(node, outer)
        above = (*above, id(node))
        own: Schema = {
            key: dict(value) if key in _HOLD_NAMES and is_mapping(value) else value
            for key, value in node.items()
            if isinstance(key, str)  # pyright: ignore[reportUnnecessaryIsInstance]  # not JSON
            and key not in ADDRESSES
            and key not in REFERENCES
            # What has references under a name of its own holds definitions.
            and (key in _KNOWN or not _has_reference(value))
        }
        written = self._with_parts(own, path, base, above)
        for keyword in REFERENCES:
            if isinstance(reference := node.get(keyword), str):
                target = self._target(reference, path, base, above)
                written = _combined(target, written)
        return written

    def _with_parts(self, own: Schema, path: str, base: str, above: tuple[int, ...]) -> Schema:
        def visit(inner: Any, step: str) -> Any:
            if is_list(inner):  # the tuples of older drafts: `items: [...]`
                return [
                    self.write(each, step_into(path, f"{step}[{index}]"), base, above)
                    for index, each in enumerate(inner)
                ]
            return self.write(inner, step_into(path, step), base, above)

        kept = clean(own, path, self._notes) if self._cleaned else own
        written = map_children(kept, visit)
        if is_mapping(dependencies := written.get("dependencies")):
            written["dependencies"] = {
                name: visit(inner, f".dependencies.{name}") for name, inner in dependencies.items()
            }
        return {
            key: value if key in HOLD_SCHEMAS or key == "dependencies" else plain(value)
            for key, value in written.items()
        }

    def _target(self, reference: str, path: str, base: str, above: tuple[int, ...]) -> Any:
        target = self._document.find(reference, base)
        if target is None:
            text = f"{reference!r} is not in the schema, so anything is allowed"
            self._notes.add(path, text, "refs")
            return {}
        if id(target.schema) in above and not isinstance(target.schema, bool):
            text = f"recursive, left open: same shape as {target.name}"
            self._notes.add(path, text, "recursion")
            return _opened(target)
        return self.write(target.schema, path, target.base, above)


def _opened(target: _Target) -> Schema:
    kinds = sorted(_kinds(target.schema))
    opened: Schema = {"type": kinds[0] if len(kinds) == 1 else kinds} if kinds else {}
    return {**opened, "description": f"recursive: same shape as {target.name}"}


def _kinds(schema: object, depth: int = 0) -> frozenset[str]:
    if not is_mapping(schema) or depth > _MAX_TYPE_DEPTH:
        return frozenset()
    kind = schema.get("type")
    if named := [kind] if isinstance(kind, str) else as_list(kind):
        return frozenset(name for name in named if name in TYPES)
    if "properties" in schema:
        return frozenset({"object"})
    for keyword in UNIONS:
        if found := [_kinds(branch, depth + 1) for branch in as_list(schema.get(keyword))]:
            return frozenset[str]().union(*found) if all(found) else frozenset()
    return frozenset()


def _combined(target: Any, siblings: Schema) -> Any:
    """Combine a schema with the siblings of its reference, without changing the meaning."""
    if not siblings:
        return target
    if isinstance(target, bool):
        return siblings if target else {**siblings, "not": {}}
    if not is_schema(target):
        return siblings
    own, other = siblings.get("description"), target.get("description")
    demands = siblings.keys() - ANNOTATIONS
    mixed = any(group & demands and group & target.keys() for group in _GROUPS)
    if mixed or demands & target.keys():
        members = [target, *as_list(siblings.get("allOf"))]
        return {**siblings, "allOf": members}
    combined = {**target, **siblings}
    if isinstance(own, str) and isinstance(other, str):
        combined["description"] = join_descriptions(own, other)
    return combined


def _has_reference(value: object, depth: int = 0) -> bool:
    if depth > MOST_DEPTH:
        return True
    if is_mapping(value):
        return any(isinstance(value.get(keyword), str) for keyword in REFERENCES) or any(
            _has_reference(each, depth + 1) for each in value.values()
        )
    return is_list(value) and any(_has_reference(each, depth + 1) for each in value)
