"""Arguments of a model made ready for a server: repaired where the schema leaves no doubt.

Texts made here name places and kinds, and never a value: a value may be a secret.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, cast

from plait._support.exception_groups import one_line
from plait.client.catalog.validation import (
    BrokenSchemaError,
    Path,
    SchemaValidator,
    Violation,
    place_of,
)
from plait.client.config.problems import nearest

_MOST_PROBLEMS = 5
"""A model corrects no more in one go."""

_MOST_OPTIONS = 10

_MOST_ROUNDS = 8
"""How deep JSON in JSON strings is read."""

_MOST_ATTEMPTS = 2_000
"""Bounds the alternatives tried for one call; schemas that contain themselves multiply them."""

_FIRST_INEXACT = 2**53
"""From here on a float stands for several integers."""


_KINDS: dict[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    type(None): "null",
}

_DEMANDS = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} entries",
    "maxProperties": "must have at most {} entries",
    "pattern": "must match the pattern {}",
    "uniqueItems": "must not contain the same item twice",
    "contains": "lacks an item of the form that is wanted",
    "items": "has too many items",
    "unevaluatedProperties": "has an argument that is not known",
    "dependentRequired": "lacks an argument that goes with another one",
    "not": "has a form that is not allowed",
    "oneOf": "must fit only one of the allowed forms",
    "": "is not allowed here",
}

_NOTHING: Any = object()


@dataclass(frozen=True, slots=True)
class Prepared:
    """Arguments ready to be sent, or, if there are problems, as they were given."""

    arguments: dict[str, Any] = field(repr=False)
    changes: tuple[str, ...] = ()
    """What was done to them, or why they are not checked."""

    problems: tuple[str, ...] = ()
    """What the model must correct, in sentences for it."""


@dataclass(frozen=True, slots=True)
class _Change:
    """One repair, and the violation that asked for it."""

    path: Path
    note: str
    cause: Violation


@dataclass(frozen=True, slots=True)
class _Mended:
    """A value after its repairs, and what is still wrong with it."""

    value: Any
    changes: tuple[_Change, ...]
    left: tuple[Violation, ...]


def prepare_arguments(
    validator: SchemaValidator, arguments: Mapping[str, Any], *, tool: str
) -> Prepared:
    """Hold arguments against a server's own schema, and repair what has one meaning only.

    Nulls that an optional argument does not allow are left out; strings that hold the JSON, the
    number or the boolean the schema wants are read. Valid arguments come back as they are.
    """
    given = cast("dict[str, Any]", arguments) if type(arguments) is dict else dict(arguments)
    if validator.surely_accepts(given):
        return Prepared(given)
    try:
        return _checked(validator, given)
    except BrokenSchemaError as error:
        reason = f"the input schema of {tool} cannot be used: {error}"
    except RecursionError:
        reason = "they are nested too deeply"
    return Prepared(given, changes=(f"the arguments are not checked: {reason}",))


def argument_error_text(tool: str, problems: Sequence[str]) -> str:
    """Tell a model what is wrong with the arguments it gave."""
    return (
        f"The arguments for {tool} are not valid: {'; '.join(problems)}. "
        "Call it again with corrected arguments."
    )


def _checked(validator: SchemaValidator, given: dict[str, Any]) -> Prepared:
    mended = _mend(validator.exact(), given, iter(range(_MOST_ATTEMPTS)))
    # To JSON Schema 3.0 is an integer; only where one is left does that make a difference.
    left = validator.violations(mended.value) if _has_whole_float(mended.value) else mended.left
    if left and _has_whole_float(given) and not validator.violations(given):
        return Prepared(given)
    if not left:
        notes = tuple(f"{place_of(change.path)}: {change.note}" for change in mended.changes)
        return Prepared(mended.value, notes) if notes else Prepared(given)
    dropped = {change.path: change.cause for change in mended.changes if change.cause.value is None}
    problems = list(dict.fromkeys(_sentences(left, mended.value, dropped)))
    if len(problems) > _MOST_PROBLEMS:
        problems[_MOST_PROBLEMS:] = [f"and {len(problems) - _MOST_PROBLEMS} more"]
    return Prepared(given, problems=tuple(problems))


def _mend(validator: SchemaValidator, value: Any, attempts: Iterator[int]) -> _Mended:
    """Repair a copy of a value, as far as that goes."""
    box: list[Any] = [_copied(value)]
    changes: list[_Change] = []
    left = validator.violations(box[0])
    for _ in range(_MOST_ROUNDS):
        made = [change for each in left for change in _repair(box, each, validator, attempts)]
        if not made:
            break
        changes += made
        left = validator.violations(box[0])
    return _Mended(box[0], tuple(changes), left)


def _repair(
    box: list[Any], violation: Violation, validator: SchemaValidator, attempts: Iterator[int]
) -> Sequence[_Change]:
    """Repair what one violation complains about, in the value that is in the box."""
    *way, last = (0, *violation.path)
    holder = _at(box, way)
    value = violation.value
    # An earlier repair may have replaced it, and a schema may speak of the names in an object.
    if _at(holder, (last,)) is not value:
        return ()
    if value is None:
        if not isinstance(holder, dict):
            return ()
        del holder[last]
        return (_Change(violation.path, "null was left out", violation),)
    if violation.keyword == "type":
        converted = _converted(value, _names(violation.expected))
        if converted is _NOTHING:
            return ()
        holder[last] = converted
        note = f"{_a(_kind(value))} was read as {_a(_kind(converted))}"
        return (_Change(violation.path, note, violation),)
    found = _mended_union(violation, validator, attempts) if violation.branches else None
    if found is None:
        return ()
    holder[last] = found.value
    return [replace(each, path=violation.path + each.path) for each in found.changes]


def _mended_union(
    union: Violation, validator: SchemaValidator, attempts: Iterator[int]
) -> _Mended | None:
    """Repair a value for the one alternative that it can be repaired for, or comes closest to."""
    whole = validator.narrowed({union.keyword: union.expected})
    by_branch: list[_Mended | None] = []
    valid: dict[str, _Mended] = {}
    for branch in union.expected:
        mended = None
        # References of a part can need the whole schema; that part is then left alone.
        with suppress(BrokenSchemaError):
            if next(attempts, None) is not None:
                mended = _mend(validator.narrowed(branch), union.value, attempts)
                if not mended.left and not whole.violations(mended.value):
                    valid[repr(mended.value)] = mended
        by_branch.append(mended)
    if valid:
        return next(iter(valid.values())) if len(valid) == 1 else None
    closest = _closest(union)
    partly = None if closest is None else by_branch[closest]
    return partly if partly is not None and partly.changes else None


def _closest(union: Violation) -> int | None:
    """Find the alternative that was probably meant."""

    def distance(branch: Sequence[Violation]) -> tuple[bool, int, int]:
        other_kind = any(not each.path and each.keyword == "type" for each in branch)
        # A wrong constant near the top marks another member of a union told apart by it.
        marks = sum(len(each.path) <= 1 and each.keyword in {"const", "enum"} for each in branch)
        return other_kind, marks, len(branch)

    distances = [distance(branch) for branch in union.branches]
    best = min(distances)
    return distances.index(best) if distances.count(best) == 1 else None


def _converted(value: object, kinds: Sequence[str]) -> Any:
    """Read a value as one of the kinds, if it can only mean that."""
    if isinstance(value, str):
        read = _read(value)
        allowed = (*kinds, "integer") if "number" in kinds else kinds
        return read if _kind(read) in allowed else _NOTHING
    if isinstance(value, float) and "integer" in kinds and _is_exact(value):
        return int(value)
    if isinstance(value, tuple) and "array" in kinds:
        return list(cast("tuple[Any, ...]", value))
    return _NOTHING


def _read(text: str) -> Any:
    """Read the JSON value that a string holds: an object, an array, a number or a boolean."""
    try:
        value = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return _NOTHING
    if isinstance(value, dict | list):
        return cast("Any", value)
    if value is None or isinstance(value, str) or text != text.strip():
        return _NOTHING
    return int(value) if isinstance(value, float) and _is_exact(value) else value


def _is_exact(value: float) -> bool:
    return value.is_integer() and abs(value) < _FIRST_INEXACT


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not JSON")
    return value


def _sentences(
    violations: Iterable[Violation], whole: Any, dropped: Mapping[Path, Violation], at: Path = ()
) -> Iterator[str]:
    """Describe violations of a value that stands at a place, the outermost first."""
    for each in sorted(violations, key=lambda violation: len(violation.path)):
        if _at(whole, each.path) is each.value:
            yield from _described(each, at + each.path, dropped)
        else:
            yield f"{place_of(at + each.path)}: has an argument or a name that is not allowed"


def _described(violation: Violation, at: Path, dropped: Mapping[Path, Violation]) -> Iterable[str]:
    value, expected = violation.value, violation.expected
    match violation.keyword:
        case "required" if isinstance(expected, list):
            missing = (name for name in cast("list[str]", expected) if name not in value)
            return [_missing((*at, name), dropped) for name in missing]
        case "additionalProperties":
            return _unknown(violation, at)
        case "type" | "enum" | "const":
            return [_must_be([violation], at)]
        case "anyOf" | "oneOf" if violation.branches:
            return _union(violation, at, dropped)
        case keyword:
            demand = _DEMANDS.get(keyword, f'breaks the rule "{one_line(keyword, 40)}"')
            return [f"{place_of(at)}: {demand.format(one_line(str(expected), 80))}"]


def _missing(path: Path, dropped: Mapping[Path, Violation]) -> str:
    """Describe a required argument that is absent, or was null and is absent for that."""
    null = dropped.get(path)
    if null is None:
        return f"missing required argument: {place_of(path)}"
    return next(iter(_described(null, path, {})))


def _unknown(violation: Violation, at: Path) -> Iterator[str]:
    known: dict[str, Any] = violation.schema.get("properties", {})
    patterns: dict[str, Any] = violation.schema.get("patternProperties", {})
    for name in map(str, violation.value):
        if name not in known and not any(re.search(pattern, name) for pattern in patterns):
            meant = nearest(name, (each for each in known if each not in violation.value))
            hint = f" (did you mean {meant}?)" if meant else ""
            yield f"unknown argument: {place_of((*at, name))}{hint}"


def _union(union: Violation, at: Path, dropped: Mapping[Path, Violation]) -> Iterable[str]:
    plain = [_plain_violation(branch) for branch in union.branches]
    if None not in plain:
        return [_must_be([each for each in plain if each is not None], at)]
    closest = _closest(union)
    if closest is not None:
        return _sentences(union.branches[closest], union.value, dropped, at)
    each_first = (
        text
        for branch in union.branches
        for text in islice(_sentences(branch, union.value, dropped, at), 1)
    )
    return [", or ".join(list(dict.fromkeys(each_first))[:3])]


def _plain_violation(branch: Iterable[Violation]) -> Violation | None:
    """Find the violation that can be told together with those of other alternatives."""
    plain = (each for each in branch if each.keyword in {"type", "enum", "const"})
    return next((each for each in plain if not each.path), None)


def _must_be(violations: Sequence[Violation], at: Path) -> str:
    wanted: list[str] = []
    for each in violations:
        if each.keyword == "type":
            wanted += [_a(name) for name in _names(each.expected)]
        elif each.keyword == "const":
            wanted.append(_option(each.expected))
        else:
            shown = ", ".join(_option(option) for option in each.expected[:_MOST_OPTIONS])
            wanted.append(f"one of {shown}" + ", …" * (len(each.expected) > _MOST_OPTIONS))
    text = f"{place_of(at)}: must be {' or '.join(dict.fromkeys(wanted))}"
    value = violations[0].value
    is_told = value is not None and all(each.keyword != "type" for each in violations)
    return text if is_told else f"{text} (got {_a(_kind(value))})"


def _option(value: object) -> str:
    return one_line(json.dumps(value, ensure_ascii=False, default=repr), 40)


def _names(expected: Any) -> list[str]:
    # In the oldest dialect a type can be a schema too.
    names: list[Any] = [expected] if isinstance(expected, str) else expected
    return [name for name in names if isinstance(name, str)]


def _kind(value: object) -> str:
    return _KINDS.get(type(value), type(value).__name__)


def _a(kind: str) -> str:
    article = "" if kind == "null" else "an " if kind[:1] in "aeiou" else "a "
    return article + kind


def _at(value: Any, path: Iterable[str | int]) -> Any:
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return _NOTHING
    return value


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(inner) for name, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_copied(inner) for inner in cast("list[Any]", value)]
    return value


def _has_whole_float(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_whole_float, cast("dict[str, Any]", value).values()))
    if isinstance(value, list):
        return any(map(_has_whole_float, cast("list[Any]", value)))
    return isinstance(value, float) and value.is_integer()
