"""The ways in which a server may read an argument, for rules about arguments.

Servers convert what they get: text that holds JSON, numbers in text, names in another spelling.
So a rule that denies or asks fits if one of the readings does, and one that allows if all do.
"""

from __future__ import annotations

import json
import posixpath
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote

from plait.client.config.raw_value import UNSET, as_list, as_mapping

_SLASHES = re.compile(r"[\\/]+")
_JSON_STARTS = frozenset('{["-0123456789tfn')
_MOST_LEVELS = 16
"""How deep values are read."""
_TOO_DEEP: object = object()
"""A value that is not read: it fits every rule that denies or asks."""
_TRUE = frozenset({"true", "1", "yes", "on", "y", "t"})
_FALSE = frozenset({"false", "0", "no", "off", "n", "f"})


def values_at(
    arguments: Mapping[str, Any], path: str, schema: Mapping[str, Any], *, strict: bool
) -> list[object]:
    """Return what a server may read as an argument, by its name or by a JSON pointer.

    Includes values under names that differ only in case and separators, and the default of the
    schema if there is no value. With `strict`, there must be one under the exact name.
    """
    steps = _steps(path)
    found: list[object] = [arguments]
    rules: Mapping[str, Any] = schema
    exact = True
    for step in steps:
        readings = [reading for value in found for reading in _readings(value)]
        named = [each for value in readings for each in _entries(value, step, exact=True)]
        similar = [each for value in readings for each in _entries(value, step, exact=False)]
        rules = _property(rules, step, schema)
        if not named and "default" in rules:
            named = [rules["default"]]
        exact = exact and bool(named)
        found = named + similar
    return found if exact or not strict else []


def unlisted_names(
    arguments: Mapping[str, Any], schema: Mapping[str, Any], known: Iterator[str]
) -> list[str]:
    """Return the arguments that neither the schema nor a rule names: they may be aliases."""
    properties = as_mapping(schema.get("properties")) or {}
    names = {_steps(path)[0] for path in known}
    return [name for name in arguments if name not in properties and name not in names]


def value_at(arguments: Mapping[str, Any], path: str) -> object:
    """Return an argument as it is written, by name or by JSON pointer; `UNSET` without one."""
    value: object = arguments
    for step in _steps(path):
        value = next(_entries(value, step, exact=True), UNSET)
    return value


def matches_globs(value: object, globs: Sequence[str], *, strict: bool, level: int = 0) -> bool:
    """Return whether a value matches one of the globs; `UNSET` never does.

    With `strict`, every item of a list and every reading of a text must match, and an object never
    does. Otherwise one item, entry or reading is enough, so that another spelling cannot bypass a
    rule that denies.
    """
    if value is _TOO_DEEP or level > _MOST_LEVELS:
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
    if not combine(any(fnmatchcase(text, glob) for glob in globs) for text in texts):
        return not strict and _parsed_matches(value, globs, level)
    return (
        not strict
        or "*" in globs
        or all(matches_globs(one, globs, strict=True, level=level + 1) for one in _parsed(value))
    )


def _parsed_matches(value: object, globs: Sequence[str], level: int) -> bool:
    return any(matches_globs(one, globs, strict=False, level=level + 1) for one in _parsed(value))


def _steps(path: str) -> list[str]:
    if not path.startswith("/"):
        return [path]
    return [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]


def _readings(value: object) -> Iterator[object]:
    yield value
    yield from _parsed(value)


def _parsed(value: object) -> Iterator[object]:
    """Yield the JSON that a text holds; of keys that are repeated, the first or the last counts."""
    text = value.strip() if isinstance(value, str) else ""
    if not text or text[0] not in _JSON_STARTS:
        return
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


def _entries(value: object, name: str, *, exact: bool) -> Iterator[object]:
    entries, items = as_mapping(value), as_list(value)
    if value is _TOO_DEEP:
        yield value
    elif entries is not None:
        if exact and name in entries:
            yield entries[name]
        elif not exact:
            plain = _plain_name(name)
            others = (key for key in entries if isinstance(key, str) and key != name)
            yield from (entries[key] for key in others if _plain_name(key) == plain)
    elif items is not None:
        if name.isdecimal():
            if exact and int(name) < len(items):
                yield items[int(name)]
        elif not exact:
            yield from (each for item in items for each in _entries(item, name, exact=True))


def _plain_name(name: str) -> str:
    return re.sub(r"[\s_.-]", "", name).casefold()


def _property(schema: Mapping[str, Any], name: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a property; an empty one if it is not simply listed."""
    listed: object = _resolved(schema, root).get("properties")
    one: object = (as_mapping(listed) or {}).get(name)
    return one if isinstance(one, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    reference: object = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return schema
    target = value_at(root, reference[1:])
    return target if isinstance(target, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _text_forms(text: str, strict: bool) -> set[str]:
    """Return the spellings of a text; those of a path also normalized."""
    forms = {text, text.strip(), unquote(text)}
    if not text.isascii():
        forms.add(unicodedata.normalize("NFKC", text))
    if not strict:
        forms |= {form.removeprefix("file://") for form in forms}
        forms |= _truth(text)
    return forms | {
        posixpath.normpath(_SLASHES.sub("/", form))
        for form in forms
        if not strict or ".." in _SLASHES.split(form)
    }


def _scalar_forms(value: object, strict: bool) -> set[str]:
    text = json.dumps(value, default=str)
    if strict:
        return {text}
    whole = {str(int(value))} if isinstance(value, float) and value.is_integer() else set[str]()
    return {text, *whole, *_truth(text), *(("1",) if value is True else ())} | (
        {"0"} if value is False else set[str]()
    )


def _truth(text: str) -> set[str]:
    folded = text.strip().lower()
    return {"true"} if folded in _TRUE else {"false"} if folded in _FALSE else set()
