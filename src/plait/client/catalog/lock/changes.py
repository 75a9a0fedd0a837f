"""Changes of one tool: texts, annotations, and schemas by argument path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal, cast

from plait._support.sanitize import escaped
from plait.client.catalog.lock.entries import Json, LockedTool, are_texts, text_of
from plait.client.catalog.lock.identity import Identity
from plait.client.catalog.schemas.describe import outline
from plait.client.catalog.schemas.values import as_list, entries_of, is_mapping
from plait.client.catalog.tool import Tool

Part = Literal[
    "title", "description", "argument", "result", "annotation", "name", "version", "address"
]
"""The part of a tool or a server that changed."""

How = Literal["changed", "added", "removed", "type", "required", "optional"]
"""How it changed."""

_LONGEST_VALUE = 120
_NAMED = frozenset({"$defs", "definitions", "patternProperties", "dependentSchemas"})
_SCHEMAS = frozenset({"additionalProperties", "not", "if", "then", "else"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One difference from the lockfile."""

    part: Part
    how: How = "changed"
    path: str = ""
    """Which argument or annotation, such as `address.zip` or `tags[]`."""
    before: Any = field(default=None, repr=False)
    after: Any = field(default=None, repr=False)
    loud: bool = False
    """Whether the tool may be more dangerous than before."""

    @property
    def label(self) -> str:
        """What changed, without quoting the server: for errors."""
        of_server = " of the server" if self.part in {"address", "version"} else ""
        how = {"required": "now required", "optional": "now optional", "type": "changed"}
        return f"{self.part}{of_server} {how.get(self.how, self.how)}"

    @property
    def text(self) -> str:
        """What changed, in one line, with both values, escaped."""
        where = f"{self.part} {escaped(self.path)}".strip()
        match self.how:
            case "added" | "removed":
                value = self.after if self.how == "added" else self.before
                return f"{where} was {self.how}{f' ({_shown(value)})' if value is not None else ''}"
            case "required" | "optional":
                return f"{where} is now {self.how}"
            case "type" | "changed":
                if self.is_prose:
                    return f"{where}: {text_of_diff(word_diff(self.before, self.after))}"
                return f"{where}: {_shown(self.before)} → {_shown(self.after)}"

    @property
    def is_prose(self) -> bool:
        """Whether both values are texts that a model reads."""
        return (
            isinstance(self.before, str)
            and isinstance(self.after, str)
            and self.how == "changed"
            and (self.part == "description" or self.path.endswith("description"))
        )

    def to_dict(self) -> dict[str, Any]:
        """Describe the change as plain data."""
        return {**asdict(self), "text": self.text}


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    text = escaped(value if isinstance(value, str) else text_of(value))
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def annotation_changes(before: LockedTool, after: LockedTool) -> Iterator[Change]:
    """Compare annotations; a change that makes a tool more dangerous is loud."""
    old, new = before.annotations, after.annotations
    louder = is_destructive(new) and not is_destructive(old)
    for name in sorted({*old, *new}):
        one, other = old.get(name), new.get(name)
        if not _same(one, other):
            loud = louder and name in {"read_only_hint", "destructive_hint"}
            yield Change(part="annotation", path=name, before=one, after=other, loud=loud)


def is_destructive(annotations: Json) -> bool:
    """Return whether a tool with these annotations may be destructive."""
    return Tool(server="", wire_name="", name="", annotations=annotations).destructive


def identity_changes(before: Identity, after: Identity) -> Iterator[Change]:
    """Compare name, version and address of a server."""
    if before.name != after.name:
        yield Change(part="name", before=before.name, after=after.name, loud=True)
    if before.version != after.version:
        yield Change(part="version", before=before.version, after=after.version)
    if before.address != after.address:
        yield Change(part="address", before=before.address, after=after.address, loud=True)


def text_changes(before: LockedTool, after: LockedTool) -> Iterator[Change]:
    """Compare title and description."""
    if before.title != after.title:
        yield Change(part="title", before=before.title, after=after.title)
    if before.description != after.description:
        yield Change(part="description", before=before.description, after=after.description)


SchemaPart = Literal["argument", "result"]


def schema_changes(part: SchemaPart, before: Any, after: Any) -> Iterator[Change]:
    """Compare two schemas in canonical form; if they differ, there is at least one change."""
    comparison = _Comparison(part)
    changes: list[Change] = []
    if before is not None and after is not None:
        changes += comparison.compare("", before, after)
    if not changes and not _same(before, after):
        changes = [comparison.change("schema", before, after)]
    yield from changes


@dataclass(frozen=True, slots=True)
class _Comparison:
    part: SchemaPart

    def change(self, path: str, before: Any, after: Any, how: How = "changed") -> Change:
        return Change(part=self.part, how=how, path=path, before=before, after=after)

    def compare(self, path: str, before: Any, after: Any) -> Iterator[Change]:
        if _same(before, after):
            return
        if not is_mapping(before) or not is_mapping(after):
            yield self.change(path or "schema", before, after)
            return
        for keyword in sorted({*before, *after}):
            if not _same(before.get(keyword), after.get(keyword)) or (
                (keyword in before) is not (keyword in after)
            ):
                yield from self._keyword(keyword, path, before, after)

    def _keyword(self, keyword: str, path: str, old: Json, new: Json) -> Iterator[Change]:
        one, other = (cast("Any", schema.get(keyword)) for schema in (old, new))
        where = _at(path, keyword)
        match keyword:
            case "properties" if _are(Mapping, one or {}, other or {}):
                yield from self._properties(path, old, new)
            case "required" if are_texts(one or []) and are_texts(other or []):
                yield from self._required(path, old, new)
            case "items" if None not in (one, other):
                yield from self.compare(f"{path}[]", one, other)
            case "type" if keyword in old and keyword in new:
                yield self.change(path or "schema", one, other, "type")
            case "anyOf" | "oneOf" | "allOf" | "prefixItems" if _are(list, one, other):
                yield from self._alternatives(where, one, other)
            case _ if keyword in _NAMED and _are(dict, one, other):
                yield from self._named(where, one, other)
            case _ if keyword in _SCHEMAS and _are(dict, one, other):
                yield from self.compare(where, one, other)
            case _:
                yield self.change(where, one, other)

    def _properties(self, path: str, old: Json, new: Json) -> Iterator[Change]:
        before, after = (entries_of(schema.get("properties")) for schema in (old, new))
        yield from self._named(path, before, after, [_required(old), _required(new)])
        if before == after and ("properties" in old) is not ("properties" in new):
            where = _at(path, "properties")
            yield self.change(where, old.get("properties"), new.get("properties"))

    def _required(self, path: str, old: Json, new: Json) -> Iterator[Change]:
        """Yield arguments that became required or optional, unless they were added or removed."""
        before, after = _required(old), _required(new)
        known = [entries_of(schema.get("properties")) for schema in (old, new)]
        differing = sorted({*before} ^ {*after})
        for name in differing:
            if (name in known[0]) is (name in known[1]):
                how = "required" if name in after else "optional"
                yield self.change(_at(path, name), None, None, how)
        if not differing:
            yield self.change(_at(path, "required"), before, after)

    def _alternatives(self, path: str, before: list[Any], after: list[Any]) -> Iterator[Change]:
        for number, (one, other) in enumerate(zip_longest(before, after), 1):
            where = f"{path}({number})"
            if number > len(before):
                yield self.change(where, None, outline(other), "added")
            elif number > len(after):
                yield self.change(where, outline(one), None, "removed")
            else:
                yield from self.compare(where, one, other)

    def _named(
        self, path: str, before: Json, after: Json, required: list[list[str]] | None = None
    ) -> Iterator[Change]:
        """Compare schemas by name; `required` are the required names before and after."""

        def kind(schema: Any, name: str, when: int) -> str:
            if required is None:
                return outline(schema)
            return f"{outline(schema)}, {'required' if name in required[when] else 'optional'}"

        for name in sorted({*before, *after}):
            where = _at(path, name)
            if name not in before:
                yield self.change(where, None, kind(after[name], name, 1), "added")
            elif name not in after:
                yield self.change(where, kind(before[name], name, 0), None, "removed")
            else:
                yield from self.compare(where, before[name], after[name])


def _required(schema: Json) -> list[str]:
    return as_list(schema.get("required"))


def _are(kind: type, *values: Any) -> bool:
    return all(isinstance(value, kind) for value in values)


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _same(one: Any, other: Any) -> bool:
    """Compare as JSON: in Python, `True` and 1 are equal."""
    return text_of(one) == text_of(other)


Span = tuple[Literal["same", "gone", "new"], str]
"""A run of words, and whether it is unchanged, removed or added."""

_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_SAME = 60
"""Characters of an unchanged run that are shown on either side of a change."""
_MOST_WORDS = 4000
"""Longer texts are compared line by line: words would take minutes."""


def word_diff(before: str, after: str) -> list[Span]:
    """Compare two texts; invisible characters are escaped."""
    old, new = _pieces(before, after)
    spans: list[Span] = []
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if start < end:
            spans.append(("same" if kind == "equal" else "gone", "".join(old[start:end])))
        if new_start < new_end and kind != "equal":
            spans.append(("new", "".join(new[new_start:new_end])))
    return list(_shortened(spans))


def text_of_diff(spans: Sequence[Span]) -> str:
    """Write a comparison in one line: `Pay [-a bill-]{+any bill+}.`."""
    marks = {"same": ("", ""), "gone": ("[-", "-]"), "new": ("{+", "+}")}
    parts = [f"{marks[kind][0]}{text}{marks[kind][1]}" for kind, text in spans]
    return " ".join("".join(parts).split())


def _pieces(before: str, after: str) -> tuple[list[str], list[str]]:
    old, new = escaped(before), escaped(after)
    words = _WORD.findall(old), _WORD.findall(new)
    if max(map(len, words)) <= _MOST_WORDS:
        return words
    return old.splitlines(keepends=True), new.splitlines(keepends=True)


def _shortened(spans: Sequence[Span]) -> Iterator[Span]:
    for number, (kind, text) in enumerate(spans):
        if kind != "same" or len(text) <= 2 * _MOST_SAME:
            yield kind, text
            continue
        head = text[:_MOST_SAME] if number else ""
        tail = text[-_MOST_SAME:] if number < len(spans) - 1 else ""
        yield kind, f"{head} … {tail}"
