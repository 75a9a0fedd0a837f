"""Inlining the references of a schema, without fetching anything, and repairing its keywords."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from plait.client.catalog.bounded_work import take_step
from plait.client.catalog.schemas.describe import (
    Notes,
    ProviderSchema,
    join_descriptions,
)
from plait.client.catalog.schemas.json_schema import (
    ADDRESSES,
    ANNOTATIONS,
    BOUNDS,
    COUNTS,
    FLAGS,
    HOLD_LIST,
    HOLD_MAP,
    HOLD_SCHEMA,
    HOLD_SCHEMAS,
    HOLD_VALUE,
    MAX_DEPTH_LEVELS,
    REFERENCES,
    TEXTS,
    TOGETHER,
    TYPES,
    Schema,
    as_list,
    as_schema,
    distinct,
    entries_of,
    holds_ref,
    is_list,
    is_mapping,
    is_number,
    is_schema,
    map_children,
    plain,
    possible_types,
    step_into,
)
from plait.client.catalog.schemas.plain_schema import DIALECT, plain_size

Node = Mapping[str, Any]

MAX_INLINED_SCHEMAS: Final = 1_000
"""Nested references can expand beyond memory; no model reads this much."""


def inline_refs(schema: object) -> ProviderSchema:
    """Inline every reference in a schema, and keep everything else.

    A recursive schema is left open at that point, with a description.
    Nothing is ever fetched: what is not in the schema allows anything.
    """
    notes = Notes()
    return ProviderSchema(_inlined(schema, notes, cleaned=False), notes.all)


def cleaned_schema(schema: object, notes: Notes) -> Schema:
    """Inline every reference, and convert all keywords into valid ones of JSON Schema 2020-12."""
    return _inlined(schema, notes, cleaned=True)


def _inlined(schema: object, notes: Notes, *, cleaned: bool) -> Schema:
    if is_mapping(schema):
        schema = _Inliner(schema, notes, cleaned).write(schema, "", ())
    elif not isinstance(schema, bool):
        notes.add("", "not a schema, so anything is allowed", "invalid")
    return as_schema(schema)


class _Inliner:
    """Writes a document without its references, which are JSON pointers into it.

    No known server refers to an anchor, or to a schema inside of its own by an address.
    """

    def __init__(self, root: Node, notes: Notes, cleaned: bool) -> None:
        self._root = root
        self._notes = notes
        self._cleaned = cleaned
        self._left = MAX_INLINED_SCHEMAS
        """So many schemas may still be written: those of the document, and some more."""
        self._plain_sizes: dict[int, int] = {}
        """What `plain_size` says of each schema, since references repeat them."""
        seen = set[int]()
        waiting: list[object] = [root]
        while waiting:
            part = waiting.pop()
            if id(part) in seen or not (is_mapping(part) or is_list(part)):
                continue
            seen.add(id(part))
            self._left += 1
            waiting.extend(part.values() if is_mapping(part) else part)

    def _find(self, reference: str) -> tuple[Node | bool, str] | None:
        """Return what a reference points to, and its name."""
        address, _, fragment = reference.partition("#")
        if address not in ("", self._root.get("$id")) or fragment[:1] not in ("", "/"):
            return None
        title = self._root.get("title")
        here: object = self._root
        name = title if isinstance(title, str) else "the whole schema"
        for part in unquote(fragment).split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if is_list(here):
                here = here[int(name)] if name.isdecimal() and int(name) < len(here) else None
            else:
                here = entries_of(here).get(name)
        return (here, name) if isinstance(here, bool) or is_mapping(here) else None

    def write(self, node: Any, path: str, above: tuple[int, ...]) -> Any:
        """Return a schema without references; `above` are the schemas around it."""
        if not is_mapping(node):
            if self._cleaned and not isinstance(node, bool):
                self._notes.add(path, "not a schema, so anything is allowed", "invalid")
                return {}
            return plain(node)
        if (size := self._plain_sizes.get(id(node))) is None:
            size = self._plain_sizes[id(node)] = plain_size(node)
        self._left -= size or 1
        if self._left < 0 or len(above) >= MAX_DEPTH_LEVELS or id(node) in above:
            self._notes.add(path, "too large or too deep, left open", "recursion")
            return {}
        if size:
            take_step(size)
            return plain(node)
        above = (*above, id(node))
        own: Schema = {
            key: dict(value) if key in HOLD_MAP and is_mapping(value) else value
            for key, value in node.items()
            if isinstance(key, str)  # pyright: ignore[reportUnnecessaryIsInstance]  # not JSON
            and key not in ADDRESSES
            and key not in REFERENCES
            # What has references under a name of its own holds definitions.
            and (key in HOLD_SCHEMAS or key in HOLD_VALUE or not holds_ref(value))
        }
        written = map_children(
            _cleaned(own, path, self._notes) if self._cleaned else own,
            lambda inner, step: self.write(inner, step_into(path, step), above),
        )
        written = {
            key: value if key in HOLD_SCHEMAS else plain(value) for key, value in written.items()
        }
        for keyword in REFERENCES:
            if not isinstance(reference := node.get(keyword), str):
                continue
            found = self._find(reference)
            if found is None:
                text = f"{reference!r} is not in the schema, so anything is allowed"
                self._notes.add(path, text, "refs")
                continue
            target, name = found
            if id(target) in above:
                self._notes.add(path, f"recursive, left open: same shape as {name}", "recursion")
                kinds = sorted(possible_types(dict(entries_of(target))))
                inner: Any = {"description": f"recursive: same shape as {name}"}
                if kinds:
                    inner = {"type": kinds[0] if len(kinds) == 1 else kinds, **inner}
            else:
                inner = self.write(target, path, above)
            written = _with_siblings(inner, written)
        return written


def _with_siblings(target: Any, siblings: Schema) -> Any:
    """Combine a schema with the siblings of its reference, without changing the meaning."""
    if not siblings or target is True:
        return siblings or target
    target = as_schema(target)
    demands = siblings.keys() - ANNOTATIONS
    mixed = any(group & demands and group & target.keys() for group in TOGETHER)
    if mixed or demands & target.keys():
        return {**siblings, "allOf": [target, *as_list(siblings.get("allOf"))]}
    combined = {**target, **siblings}
    own, other = siblings.get("description"), target.get("description")
    if isinstance(own, str) and isinstance(other, str):
        combined["description"] = join_descriptions(own, other)
    return combined


_BROKEN: Final = object()
_VALUES: Final = frozenset({"default", "const", "enum", "examples"})
_KINDS: Final[dict[str, Any]] = {
    **dict.fromkeys(HOLD_SCHEMA, (bool, Mapping)),
    **dict.fromkeys(HOLD_MAP, dict),
    **dict.fromkeys(TEXTS, str),
    **dict.fromkeys(FLAGS, bool),
    "examples": list,
}
"""The types of values that a keyword may have."""


def _cleaned(schema: Schema, path: str, notes: Notes) -> Schema:
    """Return a schema with older keywords converted and invalid ones removed, but not its parts."""
    modern = dict(schema)
    if modern.get("$schema") != DIALECT:
        modern.pop("$schema", None)
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(flag := modern.get(exclusive), bool):
            del modern[exclusive]
            if flag and is_number(modern.get(bound)):
                modern[exclusive] = modern.pop(bound)
    rest = modern.pop("additionalItems", None)
    if isinstance(modern.get("items"), list):
        first = modern.pop("items")
        if first:
            modern["prefixItems"] = first
        if rest is not None:
            modern["items"] = rest
    for name, needed in entries_of(modern.pop("dependencies", None)).items():
        key = "dependentRequired" if isinstance(needed, list) else "dependentSchemas"
        modern[key] = {**entries_of(modern.get(key)), name: needed}
    properties = modern.get("properties")
    if is_schema(properties) and "$ref" in properties:
        # Converters take a property of that name for a reference.
        notes.add(path, "the property $ref is described by a pattern", "names")
        modern["properties"] = {key: one for key, one in properties.items() if key != "$ref"}
        known = entries_of(modern.get("patternProperties"))
        modern["patternProperties"] = {**known, r"^\$ref$": properties["$ref"]}
    kept: Schema = {}
    for key, value in modern.items():
        repaired = _repaired(key, value)
        if repaired is _BROKEN:
            notes.add(path, f"{key} is broken, left out", "invalid")
        elif key in _VALUES and holds_ref(value):
            notes.add(path, f"{key} has a value that looks like a reference, left out", "invalid")
        else:
            kept[key] = repaired
    return kept


def _repaired(key: str, value: Any) -> Any:
    """Return the value of a keyword as it should be; `_BROKEN` if that cannot be known."""
    if key in _KINDS:
        return value if isinstance(value, _KINDS[key]) else _BROKEN
    if key in COUNTS:
        is_count = is_number(value) and value >= 0 and value == int(value)
        return int(value) if is_count else _BROKEN
    if key in BOUNDS or key == "multipleOf":
        is_bound = is_number(value) and (key in BOUNDS or value > 0)
        return value if is_bound else _BROKEN
    if key in HOLD_LIST:
        return as_list(value) or _BROKEN
    if key == "enum":
        return distinct(as_list(value)) or _BROKEN
    if key == "required":
        if not is_list(value):
            return _BROKEN
        return list(dict.fromkeys(name for name in value if isinstance(name, str)))
    if key == "dependentRequired":
        if not is_mapping(value):
            return _BROKEN
        lists = {name: needed for name, needed in value.items() if is_list(needed)}
        return {name: _repaired("required", needed) for name, needed in lists.items()}
    if key == "type":
        if isinstance(value, str):
            return value.lower() if value.lower() in TYPES else _BROKEN
        names = [name for name in _repaired("required", as_list(value)) if name in TYPES]
        return names or _BROKEN
    return value
