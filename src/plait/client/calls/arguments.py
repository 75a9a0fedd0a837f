"""Validates a model's arguments, and repairs them where the schema leaves no doubt.

The texts here name places and types, never values, which may be secret.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, cast

from plait._support.bounded_work import TooMuchWorkError, found, in_bounded_time, take_step
from plait._support.exception_groups import one_line
from plait._support.suggestions import nearest
from plait.client.calls.outcome import leaves
from plait.client.catalog.validation import (
    BrokenSchemaError,
    Path,
    SchemaValidator,
    Violation,
    place_of,
    prepare,
    validator_for_schema,
)
from plait.errors import InvalidArgumentsError
from plait.models.schemas.for_provider import relaxed_schema

_MAX_PROBLEMS = 5
"""Models do not correct more at once."""
_MAX_OPTIONS = 10
"""Of an enum: the model has the whole list in the schema."""
_MAX_COMPARED_NAMES = 200
"""How many names are compared with one that is not known."""
_MAX_ROUNDS = 8
"""How deep JSON in JSON strings is parsed."""
_MAX_ATTEMPTS = 2_000
"""Bounds the alternatives tried for one call, which recursive schemas multiply."""
_MIN_INEXACT = 2**53
"""From here on a float represents several integers."""

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
    """Arguments ready to be sent, or unchanged if there are problems."""

    arguments: dict[str, Any] = field(repr=False)
    changes: tuple[str, ...] = ()
    """What was repaired, or why they are not checked."""
    problems: tuple[str, ...] = ()
    """What the model must correct, in sentences for the model."""


@dataclass(frozen=True, slots=True)
class _Change:
    """One repair, and the violation that caused it."""

    path: Path
    note: str
    cause: Violation


@dataclass(frozen=True, slots=True)
class _Repaired:
    """A value after its repairs, and the remaining violations."""

    value: Any
    changes: tuple[_Change, ...]
    left: tuple[Violation, ...]


async def prepare_in_bounded_time(
    validator: SchemaValidator,
    arguments: Mapping[str, Any],
    *,
    tool: str,
    seconds: float = math.inf,
) -> Prepared:
    """Do what `prepare_arguments` does, unless that takes too long: then nothing is checked."""

    def work() -> Prepared:
        return prepare_arguments(validator, arguments, tool=tool)

    try:
        return await in_bounded_time(work, seconds)
    except TooMuchWorkError as error:
        return not_checked(dict(arguments), f"{error} with the input schema of {tool}")


async def checked_arguments(
    schema: Mapping[str, Any], arguments: Mapping[str, Any], *, tool: str
) -> Mapping[str, Any]:
    """Return arguments in the types of the schema, or raise `InvalidArgumentsError`."""
    prepared = await prepare_in_bounded_time(await prepare(schema), arguments, tool=tool)
    if prepared.problems:
        raise InvalidArgumentsError(argument_error_text(tool, prepared.problems), tool=tool)
    return prepared.arguments


def prepare_arguments(
    validator: SchemaValidator, arguments: Mapping[str, Any], *, tool: str
) -> Prepared:
    """Validate arguments against the server's own schema, and repair what is unambiguous.

    Nulls that an optional argument does not allow are left out; strings that hold the JSON, number
    or boolean that the schema requires are parsed. Valid arguments are returned unchanged.

    Raises:
        TooMuchWorkError: It takes too long.
    """
    original = cast("dict[str, Any]", arguments) if type(arguments) is dict else dict(arguments)
    if validator.surely_accepts(original):
        return Prepared(original)
    try:
        return _checked_arguments(validator, original)
    except BrokenSchemaError as error:
        reason = f"the input schema of {tool} cannot be used: {error}"
    except RecursionError:
        reason = "they are nested too deeply"
    return not_checked(original, reason)


def not_checked(arguments: dict[str, Any], reason: str) -> Prepared:
    """Return arguments as they are, with the reason why they are not checked."""
    return Prepared(arguments, changes=(f"the arguments are not checked: {reason}",))


def argument_error_text(tool: str, problems: Sequence[str]) -> str:
    """Explain to a model what is wrong with its arguments."""
    return (
        f"The arguments for {tool} are not valid: {'; '.join(problems)}. "
        "Call it again with corrected arguments."
    )


def _checked_arguments(validator: SchemaValidator, original: dict[str, Any]) -> Prepared:
    repaired = _repair_all(validator.exact(), original, iter(range(_MAX_ATTEMPTS)))
    left, changes = repaired.left, repaired.changes
    # In JSON Schema 3.0 is an integer, but for the exact validator it is not.
    if _has_whole_float(repaired.value):
        left = validator.violations(repaired.value)
    if left and _has_whole_float(original) and not validator.violations(original):
        return Prepared(original)
    if not left:
        notes = tuple(f"{place_of(change.path)}: {change.note}" for change in changes)
        return Prepared(repaired.value, notes) if notes else Prepared(original)
    dropped = {change.path: change.cause for change in changes if change.cause.value is None}
    problems = list(dict.fromkeys(_sentences(left, repaired.value, dropped)))
    if (relaxed := relaxed_schema(validator.schema)) != validator.schema:
        # Only rules may be broken that servers read in another way: then the call is sent.
        attempts = iter(range(_MAX_ATTEMPTS))
        doubtful = _repair_all(validator_for_schema(relaxed).exact(), repaired.value, attempts)
        if not doubtful.left:
            note = f"sent, though the schema read strictly says: {problems[0]}"
            return Prepared(doubtful.value, (note,))
    if len(problems) > _MAX_PROBLEMS:
        problems[_MAX_PROBLEMS:] = [f"and {len(problems) - _MAX_PROBLEMS} more"]
    return Prepared(original, problems=tuple(problems))


def _repair_all(validator: SchemaValidator, value: Any, attempts: Iterator[int]) -> _Repaired:
    box: list[Any] = [copy_of(value)]
    changes: list[_Change] = []
    left = validator.violations(box[0])
    for _ in range(_MAX_ROUNDS):
        made = [change for each in left for change in _repair(box, each, validator, attempts)]
        if not made:
            break
        changes += made
        left = validator.violations(box[0])
    return _Repaired(box[0], tuple(changes), left)


def _repair(
    box: list[Any], violation: Violation, validator: SchemaValidator, attempts: Iterator[int]
) -> Sequence[_Change]:
    """Repair one violation in the value that is in the box."""
    *way, last = (0, *violation.path)
    holder = _value_at(box, way)
    value = violation.value
    # An earlier repair may have replaced it, and `propertyNames` checks names, not values.
    if _value_at(holder, (last,)) is not value:
        return ()
    if value is None:
        if not isinstance(holder, dict):
            return ()
        del holder[last]
        return (_Change(violation.path, "null was left out", violation),)
    if violation.keyword == "type":
        converted = _converted_value(value, _type_names(violation.expected))
        if converted is _NOTHING:
            return ()
        holder[last] = converted
        note = f"{_with_article(_kind(value))} was read as {_with_article(_kind(converted))}"
        return (_Change(violation.path, note, violation),)
    repaired = _repaired_union(violation, validator, attempts) if violation.branches else None
    if repaired is None:
        return ()
    holder[last] = repaired.value
    return [replace(each, path=violation.path + each.path) for each in repaired.changes]


def _repaired_union(
    union: Violation, validator: SchemaValidator, attempts: Iterator[int]
) -> _Repaired | None:
    """Repair a value for the only alternative that fits after repairs, else for the closest."""
    whole = validator.narrowed({union.keyword: union.expected})
    by_branch: list[_Repaired | None] = []
    valid: dict[str, _Repaired] = {}
    for branch in union.expected:
        repaired = None
        # References in a part may need the whole schema; such a part is skipped.
        with suppress(BrokenSchemaError):
            if next(attempts, None) is not None:
                repaired = _repair_all(validator.narrowed(branch), union.value, attempts)
                if not repaired.left and not whole.violations(repaired.value):
                    valid[repr(repaired.value)] = repaired
        by_branch.append(repaired)
    if valid:
        return next(iter(valid.values())) if len(valid) == 1 else None
    closest = _closest(union)
    partly = None if closest is None else by_branch[closest]
    return partly if partly is not None and partly.changes else None


def _closest(union: Violation) -> int | None:
    def distance(branch: Sequence[Violation]) -> tuple[bool, int, int]:
        other_kind = any(not each.path and each.keyword == "type" for each in branch)
        # A wrong constant near the top indicates another member of a tagged union.
        marks = sum(len(each.path) <= 1 and each.keyword in {"const", "enum"} for each in branch)
        return other_kind, marks, len(branch)

    distances = [distance(branch) for branch in union.branches]
    best = min(distances)
    return distances.index(best) if distances.count(best) == 1 else None


def _converted_value(value: object, kinds: Sequence[str]) -> Any:
    """Convert a value to one of the types, if that is unambiguous."""
    if isinstance(value, str):
        read = _parsed_value(value)
        allowed = (*kinds, "integer") if "number" in kinds else kinds
        return read if _kind(read) in allowed else _NOTHING
    if isinstance(value, float) and "integer" in kinds and _is_exact(value):
        return int(value)
    if isinstance(value, tuple) and "array" in kinds:
        return list(cast("tuple[Any, ...]", value))
    return _NOTHING


def _parsed_value(text: str) -> Any:
    """Parse the JSON object, array, number or boolean that a string holds."""

    def finite(number: str) -> float:
        if not math.isfinite(value := float(number)):
            raise ValueError(f"{number} is not JSON")
        return value

    try:
        value = json.loads(text, parse_constant=finite, parse_float=finite)
    except (ValueError, RecursionError):
        return _NOTHING
    if isinstance(value, dict | list):
        return cast("Any", value)
    if value is None or isinstance(value, str) or text != text.strip():
        return _NOTHING
    return int(value) if isinstance(value, float) and _is_exact(value) else value


def _is_exact(value: float) -> bool:
    return value.is_integer() and abs(value) < _MIN_INEXACT


def _sentences(
    violations: Iterable[Violation], whole: Any, dropped: Mapping[Path, Violation], at: Path = ()
) -> Iterator[str]:
    """Describe violations of the value at a path, the outermost first."""
    for each in sorted(violations, key=lambda violation: len(violation.path)):
        if _value_at(whole, each.path) is each.value:
            yield from _sentences_about(each, at + each.path, dropped)
        else:
            yield f"{place_of(at + each.path)}: has an argument or a name that is not allowed"


def _sentences_about(
    violation: Violation, at: Path, dropped: Mapping[Path, Violation]
) -> Iterable[str]:
    value, expected = violation.value, violation.expected
    match violation.keyword:
        case "required" if isinstance(expected, list):
            missing = ((*at, name) for name in cast("list[str]", expected) if name not in value)
            return [
                # One that was dropped, because it was null, is there for the model.
                next(iter(_sentences_about(dropped[path], path, {})))
                if path in dropped
                else f"missing required argument: {place_of(path)}"
                for path in missing
            ]
        case "additionalProperties":
            return _unknown_names(violation, at)
        case "type" | "enum" | "const":
            return [_requirement([violation], at)]
        case "anyOf" | "oneOf" if violation.branches:
            return _union_sentences(violation, at, dropped)
        case keyword:
            demand = _DEMANDS.get(keyword, f'breaks the rule "{one_line(keyword, 40)}"')
            return [f"{place_of(at)}: {demand.format(one_line(str(expected), 80))}"]


def _unknown_names(violation: Violation, at: Path) -> Iterator[str]:
    known: dict[str, Any] = violation.schema.get("properties", {})
    patterns: dict[str, Any] = violation.schema.get("patternProperties", {})
    for name in map(str, violation.value):
        take_step()
        if name not in known and not any(found(pattern, name) for pattern in patterns):
            others = (each for each in known if each not in violation.value)
            meant = nearest(name, islice(others, _MAX_COMPARED_NAMES))
            hint = f" (did you mean {meant}?)" if meant else ""
            yield f"unknown argument: {place_of((*at, name))}{hint}"


def _union_sentences(
    union: Violation, at: Path, dropped: Mapping[Path, Violation]
) -> Iterable[str]:
    # Those of all alternatives make one sentence if they are about the value as a whole.
    simple = {"type", "enum", "const"}
    whole = (
        [each for each in branch if each.keyword in simple and not each.path][:1]
        for branch in union.branches
    )
    plain = [each for first in whole for each in first]
    if len(plain) == len(union.branches):
        return [_requirement(plain, at)]
    closest = _closest(union)
    if closest is not None:
        return _sentences(union.branches[closest], union.value, dropped, at)
    each_first = (
        text
        for branch in union.branches
        for text in islice(_sentences(branch, union.value, dropped, at), 1)
    )
    return [", or ".join(list(dict.fromkeys(each_first))[:3])]


def _requirement(violations: Sequence[Violation], at: Path) -> str:
    allowed: list[str] = []
    for each in violations:
        if each.keyword == "type":
            allowed += [_with_article(name) for name in _type_names(each.expected)]
        elif each.keyword == "const":
            allowed.append(_option(each.expected))
        else:
            shown = ", ".join(_option(option) for option in each.expected[:_MAX_OPTIONS])
            allowed.append(f"one of {shown}" + ", …" * (len(each.expected) > _MAX_OPTIONS))
    text = f"{place_of(at)}: must be {' or '.join(dict.fromkeys(allowed))}"
    value = violations[0].value
    is_clear = value is not None and all(each.keyword != "type" for each in violations)
    return text if is_clear else f"{text} (got {_with_article(_kind(value))})"


def _option(value: object) -> str:
    return one_line(json.dumps(value, ensure_ascii=False, default=repr), 40)


def _type_names(expected: Any) -> list[str]:
    # In draft 3 a type can be a schema too.
    names: list[Any] = [expected] if isinstance(expected, str) else expected
    return [name for name in names if isinstance(name, str)]


def _kind(value: object) -> str:
    return _KINDS.get(type(value), type(value).__name__)


def _with_article(kind: str) -> str:
    article = "" if kind == "null" else "an " if kind[:1] in "aeiou" else "a "
    return article + kind


def _value_at(value: Any, path: Iterable[str | int]) -> Any:
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return _NOTHING
    return value


def copy_of(value: Any) -> Any:
    """Copy objects and lists; other values are shared."""
    if isinstance(value, dict):
        return {name: copy_of(inner) for name, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [copy_of(inner) for inner in cast("list[Any]", value)]
    return value


def _has_whole_float(value: Any) -> bool:
    return any(isinstance(leaf, float) and leaf.is_integer() for leaf in leaves(value))
