"""The rules of JSON Schema in bounded time; each takes a step of the allowance."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

from plait.client.catalog.allowance import TooMuchWorkError, take_step
from plait.client.catalog.patterns import found

Rule = Callable[[Any, Any, Any, Any], Iterable[Any] | None]

_MOST_ENTRIES = 200_000
"""A single rule walks over the entries of a list or object without a step."""
DATA_KEYWORDS = frozenset({"const", "enum", "default", "examples"})
"""Keywords whose values are data, not schemas."""


@lru_cache(maxsize=32)
def bounded(rules: Any, *, with_patterns: bool) -> Any:
    """Return a validator class of `jsonschema` whose rules take bounded time.

    `with_patterns` tells whether the schema has `patternProperties`, which the library would search
    with while it looks for unevaluated properties: those are allowed then.
    """
    from jsonschema import validators  # noqa: PLC0415  # 0.1 s many never need

    known: dict[str, Rule] = dict(rules.VALIDATORS)
    own: dict[str, Rule] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties(known["additionalProperties"]),
        "uniqueItems": _unique_items,
    }
    if with_patterns:
        own["unevaluatedProperties"] = _allow
    made = {name: _stepping(own.get(name, rule)) for name, rule in known.items()}
    return cast("Any", validators).extend(rules, made)


def _stepping(rule: Rule) -> Rule:
    def step(validator: Any, expected: Any, value: Any, schema: Any) -> Iterable[Any] | None:
        take_step(1 + len(cast("list[Any]", expected)) // 20 if isinstance(expected, list) else 1)
        if isinstance(value, dict | list) and len(cast("list[Any]", value)) > _MOST_ENTRIES:
            raise TooMuchWorkError(f"the value has more than {_MOST_ENTRIES:,} entries")
        return rule(validator, expected, value, schema)

    return step


def _allow(_validator: Any, _expected: Any, _value: Any, _schema: Any) -> None:
    return None


def _pattern(validator: Any, expected: Any, value: Any, _schema: Any) -> Iterable[Any]:
    if validator.is_type(value, "string") and found(expected, value) is False:
        yield _error(f"{value!r} does not match {expected!r}")


def _pattern_properties(
    validator: Any, expected: Any, value: Any, _schema: Any
) -> Generator[Any, None, None]:
    if validator.is_type(value, "object"):
        for pattern, part in expected.items():
            for name, inner in value.items():
                if found(pattern, name):
                    yield from validator.descend(inner, part, path=name, schema_path=pattern)


def _additional_properties(rule: Rule) -> Rule:
    """Return the rule with our search; a name that a pattern may match is no additional one."""

    def check(validator: Any, expected: Any, value: Any, schema: Any) -> Iterable[Any] | None:
        patterns: Mapping[str, Any] | None = schema.get("patternProperties")
        if not patterns or not validator.is_type(value, "object"):
            return rule(validator, expected, value, schema)
        left = {
            name: inner
            for name, inner in value.items()
            if all(found(pattern, name) is False for pattern in patterns)
        }
        bare = {key: part for key, part in schema.items() if key != "patternProperties"}
        return rule(validator, expected, left, bare)

    return check


def _unique_items(validator: Any, expected: Any, value: Any, _schema: Any) -> Iterable[Any]:
    """Find repeated items by their JSON: the library compares each with each."""
    if expected and validator.is_type(value, "array"):
        written = {json.dumps(item, sort_keys=True, default=repr) for item in value}
        if len(written) < len(value):
            yield _error("it contains the same item twice")


def _error(text: str) -> Exception:
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415

    return cast("Any", ValidationError)(text)


def patterns_in(schema: Any) -> tuple[set[str], bool]:
    """Find the patterns of a schema, and whether some of them are for names of properties."""
    patterns: set[str] = set()
    for_names = False
    for part in parts_of(schema):
        if isinstance(pattern := part.get("pattern"), str):
            patterns.add(pattern)
        if isinstance(named := part.get("patternProperties"), dict):
            for_names = True
            patterns.update(map(str, cast("dict[str, Any]", named)))
    return patterns, for_names


def parts_of(schema: Any) -> Generator[dict[str, Any]]:
    """Yield every object of a schema, however deep; also those between keywords and schemas."""
    left: list[Any] = [schema]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            entries = cast("dict[str, Any]", part)
            yield entries
            left += [inner for key, inner in entries.items() if key not in DATA_KEYWORDS]
        elif isinstance(part, list):
            left += cast("list[Any]", part)
