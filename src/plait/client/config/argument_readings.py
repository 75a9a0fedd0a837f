"""The ways in which a server may read an argument, for rules about arguments.

Servers convert what they get: text that holds JSON, numbers in text, names in another spelling.
So a rule that denies or asks fits if one of the readings does, and one that allows if all do.
"""

from __future__ import annotations

import json
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import Any
from urllib.parse import unquote

from plait.client.config.raw_value import UNSET, as_list, as_mapping

_SLASHES = re.compile(r"[\\/]+")
_JSON_STARTS = frozenset('{["-0123456789tfn')
_FILE = re.compile(r"^file:(?://[^/]*)?", re.IGNORECASE)
_NUMERIC = re.compile(r"[+-]?\.?\d")
_MAX_LEVELS = 16
"""How deep values are read: no tool nests its arguments so deep, but an attack may."""
_MAX_SCHEMA_PARTS = 200
"""How many parts of a schema are searched for defaults: references may go in circles."""
_MAX_DECODINGS = 3
"""How often a text is decoded again: a server does so once, or twice by mistake."""
_MAX_NUMBER_CHARACTERS = 64
"""No argument is a longer number, and reading one takes time."""
_MAX_QUICK_VALUES = 1_000
_MAX_QUICK_CHARACTERS = 100_000
"""What an event loop may read itself, in about a millisecond."""
_TOO_DEEP: object = object()
"""A value that is not read: it fits every rule that denies or asks."""
_TRUE = frozenset({"true", "1", "yes", "on", "y", "t"})
_FALSE = frozenset({"false", "0", "no", "off", "n", "f"})


def is_large(arguments: Mapping[str, Any]) -> bool:
    """Return whether reading arguments takes so long that an event loop should not do it."""
    waiting: list[object] = [arguments]
    values, characters = _MAX_QUICK_VALUES, _MAX_QUICK_CHARACTERS
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            characters -= len(value)
        inner = as_mapping(value)
        items = as_list(value) if inner is None else inner.values()
        values -= len(items or ())
        if values < 0 or characters < 0:
            return True
        waiting += items or ()
    return False


def values_at(
    arguments: Mapping[str, Any], path: str, schema: Mapping[str, Any], *, strict: bool
) -> list[object]:
    """Return what a server may read as an argument, by its name or by a JSON pointer.

    Includes values under names that differ only in case and separators, and the default of the
    schema for what is missing or null. With `strict`, there must be one under the exact name.
    """
    found: list[object] = [arguments]
    for level in _levels(arguments, _steps(path), schema):
        if strict and not (level.named or level.defaults):
            return []
        found = level.values
    return found


def unlisted_names(
    arguments: Mapping[str, Any], schema: Mapping[str, Any], known: Iterable[str]
) -> list[str]:
    """Return the arguments that neither the schema nor a rule names: they may be aliases."""
    paths = [_steps(path) for path in known]
    names: dict[str, None] = {}
    for path in paths:
        for depth, level in enumerate(_levels(arguments, path, schema)):
            if depth and not level.listed:
                continue  # an object whose names are data, and no aliases
            ruled = {one[depth] for one in paths if one[:depth] == path[:depth] and one[depth:]}
            keys = (str(key) for each in level.objects for key in each or ())
            names |= dict.fromkeys(key for key in keys if key not in level.listed | ruled)
    return list(names)


@dataclass(frozen=True, slots=True)
class _Level:
    """One step of a path: the objects that it leads into, and what it may mean there."""

    objects: list[Mapping[object, object] | None]
    """`None` stands for one that is too deep to be read."""
    listed: frozenset[object]
    """The names that the schema lists."""
    named: list[object]
    similar: list[object]
    """What is under names that differ only in case and separators, or in lists."""
    defaults: list[object]

    @property
    def values(self) -> list[object]:
        every = (*self.named, *self.similar, *self.defaults)
        return list({id(value): value for value in every}.values())


def _levels(
    arguments: Mapping[str, Any], steps: Sequence[str], root: Mapping[str, Any]
) -> Iterator[_Level]:
    found: list[object] = [arguments]
    schemas: list[object] = [root]
    for step in steps:
        readings = [reading for value in found for reading in _readings(value)]
        objects = [each for value in found for each in _objects(value)]
        properties = [as_mapping(one.get("properties")) or {} for one in _variants(schemas, root)]
        if not step.isdecimal():
            schemas = [each[step] for each in properties if step in each]
        defaults = [one["default"] for one in _variants(schemas, root) if "default" in one]
        is_missing = not objects or any(
            each is not None and each.get(step) is None for each in objects
        )
        level = _Level(
            objects,
            frozenset(name for each in properties for name in each),
            named=[each for value in readings for each in _entry(value, step)],
            # A server may make a list of a single value.
            similar=[each for one in objects for each in _similar_entries(one, step)]
            + (readings if step == "0" else []),
            defaults=defaults if is_missing and not step.isdecimal() else [],
        )
        yield level
        found = level.values


def value_at(arguments: Mapping[str, Any], path: str) -> object:
    """Return an argument as it is written, by name or by JSON pointer; `UNSET` without one."""
    value: object = arguments
    for step in _steps(path):
        value = next(_entry(value, step), UNSET)
    return value


def matches_globs(value: object, globs: Sequence[str], *, strict: bool, level: int = 0) -> bool:
    """Return whether a value matches one of the globs; `UNSET` never does.

    With `strict`, every item of a list and every reading of a text must match, and an object never
    does. Otherwise one item, entry or reading is enough, so that another spelling cannot bypass a
    rule that denies.
    """
    if value is _TOO_DEEP or level > _MAX_LEVELS:
        return not strict
    if value is UNSET:
        return False
    combine = all if strict else any
    items = as_list(value)
    entries = as_mapping(value)
    if entries is not None:
        if strict:
            return False
        items = list(entries.values())
    if items is not None:
        inner = (matches_globs(one, globs, strict=strict, level=level + 1) for one in items)
        return bool(items) and combine(inner)
    texts = _text_forms(value, strict) if isinstance(value, str) else _scalar_forms(value, strict)
    fits = combine(any(fnmatchcase(text, glob) for glob in globs) for text in texts)
    # A text that holds JSON must fit as what it holds, too, unless anything may be allowed.
    if fits != strict or (strict and "*" in globs):
        return fits
    return combine(
        matches_globs(one, globs, strict=strict, level=level + 1) for one in _json_values(value)
    )


def _steps(path: str) -> list[str]:
    if not path.startswith("/"):
        return [path]
    return [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]


def _readings(value: object, level: int = 0) -> Iterator[object]:
    """Yield a value, and the JSON that it holds if it is a text."""
    yield value if level <= _MAX_LEVELS else _TOO_DEEP
    if level <= _MAX_LEVELS:
        for one in _json_values(value):
            yield from _readings(one, level + 1)


def _objects(value: object, level: int = 0) -> Iterator[Mapping[object, object] | None]:
    """Yield the objects that a value is or holds, as JSON or in lists; `None` for deeper ones."""
    if level > _MAX_LEVELS or value is _TOO_DEEP:
        yield None
    elif (entries := as_mapping(value)) is not None:
        yield entries
    elif (items := as_list(value)) is not None:
        for item in items:
            if not isinstance(item, str) or _may_be_json(item):
                yield from _objects(item, level + 1)
    else:
        for one in _json_values(value):
            yield from _objects(one, level + 1)


def _may_be_json(text: str) -> bool:
    return text.lstrip()[:1] in _JSON_STARTS


def _json_values(value: object) -> Iterator[object]:
    """Yield the JSON that a text holds; of keys that are repeated, the first or the last counts."""
    if not isinstance(value, str) or not _may_be_json(value):
        return
    text = value.strip()
    repeated = False

    def first_counts(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal repeated
        entries = dict(reversed(pairs))
        repeated = repeated or len(entries) < len(pairs)
        return entries

    try:
        first: object = json.loads(text, object_pairs_hook=first_counts)
        yield first
        if repeated:
            yield json.loads(text)
    except RecursionError:
        yield _TOO_DEEP
    except ValueError:
        return


def _entry(value: object, name: str) -> Iterator[object]:
    entries, items = as_mapping(value), as_list(value)
    if entries is not None and name in entries:
        yield entries[name]
    elif items is not None and name.isdecimal() and int(name) < len(items):
        yield items[int(name)]


def _similar_entries(entries: Mapping[object, object] | None, name: str) -> Iterator[object]:
    """Yield what a server may take for an entry, the entry itself included."""
    if entries is None:
        yield _TOO_DEEP
        return
    plain = _plain_name(name)
    yield from (entries[key] for key in entries if _plain_name(str(key)) == plain)


@lru_cache(1024)
def _plain_name(name: str) -> str:
    return re.sub(r"[\s_.-]", "", name).casefold()


def _variants(schemas: Sequence[object], root: Mapping[str, Any]) -> list[Mapping[object, Any]]:
    """Return what values may be described by: references, alternatives, and items of arrays."""
    found: list[Mapping[object, Any]] = []
    waiting = [one for one in map(as_mapping, schemas) if one is not None]
    while waiting and len(found) < _MAX_SCHEMA_PARTS:
        schema = waiting.pop(0)
        found.append(schema)
        inner: list[object] = [schema.get("items")]
        for keyword in ("allOf", "anyOf", "oneOf", "prefixItems"):
            inner += as_list(schema.get(keyword)) or ()
        reference: object = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            inner.append(value_at(root, reference[1:]))
        waiting += [one for one in map(as_mapping, inner) if one is not None]
    return found


def _text_forms(text: str, strict: bool) -> set[str]:
    """Return the spellings of a text; those of a path also normalized."""
    forms = found = {text}
    for _ in range(_MAX_DECODINGS):
        found = {each for form in found for each in _decodings(form)} - forms
        if not found:
            break
        forms |= found
    if not strict:
        forms |= {_FILE.sub("", form) for form in forms}
        numbers = [number for form in forms for number in _numbers(form)]
        forms |= {each for number in numbers for each in _scalar_forms(number, strict)}
        forms |= {truth for form in forms for truth in _truth(form)}
    return forms | {
        posixpath.normpath(_SLASHES.sub("/", form))
        for form in forms
        if (".." in _SLASHES.split(form) if strict else _SLASHES.search(form))
    }


def _decodings(text: str) -> Iterator[str]:
    yield text.strip()
    if "%" in text:
        yield unquote(text)
    if not text.isascii():
        yield unicodedata.normalize("NFKC", text)


def _numbers(text: str) -> Iterator[float]:
    """Yield the numbers that languages read in a text: `+1`, `01`, `1_000`, `0x1`, `1.`."""
    if len(text) <= _MAX_NUMBER_CHARACTERS and _NUMERIC.match(text):
        for read in (int, partial(int, base=0), float):
            with suppress(ValueError):
                yield read(text)


def _scalar_forms(value: object, strict: bool) -> set[str]:
    text = json.dumps(value, default=str)
    forms = {text}
    if strict:
        return forms
    if isinstance(value, float) and value.is_integer():
        forms.add(str(int(value)))
    if isinstance(value, bool):
        forms.add(str(int(value)))
    return forms | {truth for form in forms for truth in _truth(form)}


def _truth(text: str) -> set[str]:
    folded = text.strip().lower() if len(text) <= _MAX_NUMBER_CHARACTERS else ""
    return {"true"} if folded in _TRUE else {"false"} if folded in _FALSE else set()
