"""Validating values against JSON schemas of servers: compiled once, without fetching anything.

The rules are those of `jsonschema`, and each takes a step of an allowance, because a server writes
the schema. Importing that library takes 0.1 s and reads files, so call `prepare` first inside an
event loop.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Generator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

from cachetools import LRUCache

from plait._support.bounded_work import (
    MAX_PATTERN_CHARS,
    QUICK_SECONDS,
    TooMuchWorkError,
    allowed_seconds,
    can_search,
    found,
    take_step,
)
from plait._support.exception_groups import one_line
from plait._support.threads import in_thread, lock_across_forks
from plait.models.schemas.json_schema import CONSTRAINTS, DIALECT, HOLD_VALUE, plain_size

T = TypeVar("T")

Path = tuple[str | int, ...]
"""The keys and indexes that lead to a value."""

Test = Callable[[Any], bool]
"""Returns true if a value is certainly valid; false means unknown."""

Rule = Callable[[Any, Any, Any, Any], Iterable[Any] | None]
"""A rule of `jsonschema`: gets a validator, the value of the keyword, a value and the schema."""

_PLAIN_NAME = re.compile(r"[\w$@-]{1,60}")
MAX_SCHEMAS: Final = 256
"""Enough for the tools of a dozen servers."""
MAX_SCHEMA_ENTRIES: Final = 20_000
"""A schema with more of them takes seconds to compile."""
MAX_QUICK_ENTRIES: Final = 500
"""Larger schemas have no fast test: only its lists take steps."""
MAX_VALUE_ENTRIES: Final = 200_000
"""A single rule walks over the entries of a list or object without a step."""
ITEMS_PER_STEP: Final = 64
"""Steps cost more than the tests of a few items."""
_PLAIN_DIALECTS: Final = frozenset({DIALECT, "http://json-schema.org/draft-07/schema#"})
"""Dialects in which a plain schema means the same."""


class BrokenSchemaError(ValueError):
    """A schema cannot be used to validate; the message quotes no value."""


def place_of(path: Path) -> str:
    """Format a path as `items[0].id`; the empty path is `arguments`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN_NAME.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{one_line(json.dumps(step, ensure_ascii=False), 60)}]"
    return text or "arguments"


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule of a schema that a value violates."""

    path: Path
    keyword: str
    """The rule, such as `type`; empty where the schema is `false`."""
    expected: Any
    """The value of the keyword."""
    value: Any = field(repr=False)
    schema: Any = field(repr=False)
    """The part of the schema that contains the rule."""
    branches: tuple[tuple[Violation, ...], ...] = ()
    """For `anyOf` and `oneOf`: why each alternative fails, with paths from `value` on."""


@dataclass(frozen=True, slots=True)
class SchemaValidator:
    """A compiled schema; a broken one reports that for every value."""

    schema: Any = None
    broken: str | None = None
    """Why the schema could not be compiled."""
    unchecked: tuple[str, ...] = ()
    """The patterns that values are not compared with; see `patterns`."""
    _rules: Any = field(default=None, repr=False)
    _quick: Test | None = field(default=None, repr=False)
    _has_items: bool = field(default=False, repr=False)
    """Whether the fast test may look at each item of a list, and so has to be bounded."""

    def surely_accepts(self, value: object) -> bool:
        """Return true, fast, for a value that is certainly valid; false means unknown.

        A number such as 3.0 is never certainly an integer.
        """
        if self._quick is None or not self._has_items:
            return self._quick is not None and self._quick(value)
        try:
            with allowed_seconds(QUICK_SECONDS):
                return self._quick(value)
        except TooMuchWorkError:
            return False

    def violations(self, value: object) -> tuple[Violation, ...]:
        """Find every rule that a value violates.

        Raises:
            BrokenSchemaError: The schema cannot be used.
            TooMuchWorkError: It takes too long.
        """
        return self._run(lambda: tuple(map(_violation, self._rules.iter_errors(value))))

    def problem(self, value: object) -> str | None:
        """Describe the first violation, in one line that may quote the value.

        Raises:
            TooMuchWorkError: It takes too long.
        """
        if self.surely_accepts(value):
            return None
        try:
            first = self._run(lambda: next(self._rules.iter_errors(value), None))
        except BrokenSchemaError as error:
            return f"the schema itself is broken: {error}"
        return None if first is None else one_line(str(first.message))

    def _run(self, work: Callable[[], T]) -> T:
        if self.broken is not None:
            raise BrokenSchemaError(self.broken)
        with allowed_seconds():
            return _guarded(work)

    def exact(self) -> SchemaValidator:
        """Return a validator for which 3.0 is a number but no integer."""
        if self.broken is not None:
            return self
        exact: Any = _exact_class(self._rules.__class__)
        rules = exact(self._rules.schema, registry=_empty_registry())
        return SchemaValidator(schema=self.schema, _rules=rules)

    def narrowed(self, schema: object) -> SchemaValidator:
        """Return a validator for a part of this schema; its references keep their meaning."""
        if self.broken is not None:
            return self
        rules = _guarded(lambda: self._rules.evolve(schema=schema))
        return SchemaValidator(schema=schema, _rules=rules)


_lock = lock_across_forks()
_validators: LRUCache[str, SchemaValidator] = LRUCache(MAX_SCHEMAS)
"""By canonical JSON."""

_recent: dict[int, tuple[Mapping[str, Any], SchemaValidator]] = {}
"""By the identity of a schema, which is kept alive so that its ID is not reused."""


def validator_for_schema(schema: Mapping[str, Any]) -> SchemaValidator:
    """Return the validator of a schema, compiling it if it is new."""
    if (known := validator_if_prepared(schema)) is not None:
        return known
    try:
        key = _key(schema)
    except (TypeError, ValueError, RecursionError):
        return SchemaValidator(broken="it is not JSON")
    decoded = json.loads(key)
    try:
        validator = _guarded(lambda: _compile(decoded, key))
    except BrokenSchemaError as error:
        validator = SchemaValidator(schema=decoded, broken=str(error))
    with _lock:
        _validators[key] = validator
    return validator


async def prepare(schema: Mapping[str, Any]) -> SchemaValidator:
    """Return the validator of a schema; if it is new, it is compiled in a thread."""

    def compile_and_use() -> SchemaValidator:
        validator = validator_for_schema(schema)
        # The library loads some parts with the first value.
        with suppress(TooMuchWorkError):
            validator.problem({})
        return validator

    return validator_if_prepared(schema) or await in_thread(compile_and_use)


def validator_if_prepared(schema: Mapping[str, Any]) -> SchemaValidator | None:
    """Return the validator of a schema if it is ready without blocking."""
    try:
        seen = _recent.get(id(schema))
        # Comparing with the one seen last is cheaper than writing JSON.
        if seen is not None and seen[1].schema == schema:
            return seen[1]
        key = _key(schema)
    except (TypeError, ValueError, RecursionError):
        return None  # not even JSON: compiling reports that
    with _lock:
        known = _validators.get(key)
        if known is not None:
            if len(_recent) >= MAX_SCHEMAS:
                _recent.clear()
            _recent[id(schema)] = (schema, known)
    return known


def _key(schema: Mapping[str, Any]) -> str:
    def as_dict(value: object) -> dict[str, Any]:
        if isinstance(value, Mapping):
            return dict(cast("Mapping[str, Any]", value))
        raise TypeError(f"a {type(value).__name__} is not JSON")

    return json.dumps(schema, sort_keys=True, default=as_dict)


def _compile(schema: Any, text: str) -> SchemaValidator:
    from jsonschema import validators  # noqa: PLC0415  # 0.1 s many never need

    size, has_named_patterns, patterns = 0, False, set[str]()
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            entries = cast("dict[str, Any]", part)
            size += len(entries)
            waiting += [inner for key, inner in entries.items() if key not in HOLD_VALUE]
            if isinstance(pattern := entries.get("pattern"), str):
                patterns.add(pattern)
            if isinstance(named := entries.get("patternProperties"), dict):
                has_named_patterns = True
                patterns.update(map(str, cast("dict[str, Any]", named)))
        elif isinstance(part, list):
            waiting += cast("list[Any]", part)
    if size > MAX_SCHEMA_ENTRIES:
        raise BrokenSchemaError(f"it has more than {MAX_SCHEMA_ENTRIES:,} entries")
    dialect: Any = validators.validator_for(schema)
    # Its rule for the format of patterns would be that of Python.
    dialect.check_schema(schema, format_checker=None)
    unchecked = tuple(sorted(one for one in patterns if not can_search(one)))
    for pattern in unchecked:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError):
            if len(pattern) <= MAX_PATTERN_CHARS:
                reason = one_line(f"{pattern!r} is no regular expression")
                raise BrokenSchemaError(reason) from None
    rules = _bounded(dialect, has_named_patterns=has_named_patterns)
    # The dialect is chosen; a part must not choose another one, whose rules have no bound.
    root = _without_dialect(schema)
    # Older dialects give some keywords another meaning.
    modern = dialect.__name__ not in {"Draft3Validator", "Draft4Validator"}
    return SchemaValidator(
        schema=schema,
        unchecked=unchecked,
        _rules=rules(root, registry=_empty_registry()),
        _quick=_test_of(root, rules.VALIDATORS) if modern and size <= MAX_QUICK_ENTRIES else None,
        _has_items='"items"' in text,
    )


def quick_test(schema: Mapping[str, Any]) -> Test | None:
    """Return the fast test of a schema without compiling it; `None` unless all of it is plain.

    A first call would otherwise wait for the import of the library.
    """
    dialect = schema.get("$schema", DIALECT)
    if not isinstance(dialect, str) or dialect not in _PLAIN_DIALECTS:
        return None
    root = {key: value for key, value in schema.items() if key != "$schema"}
    if not 0 < plain_size(root) <= MAX_QUICK_ENTRIES:
        return None
    test = _test_of(root, CONSTRAINTS)
    if test is None:
        return None
    return SchemaValidator(_quick=test, _has_items='"items"' in _key(root)).surely_accepts


def _without_dialect(part: Any) -> Any:
    if isinstance(part, list):
        return [_without_dialect(one) for one in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    return {
        key: inner if key in HOLD_VALUE else _without_dialect(inner)
        for key, inner in cast("dict[str, Any]", part).items()
        if key != "$schema" or not isinstance(inner, str)
    }


def _guarded(work: Callable[[], T]) -> T:
    """Call the library; any exception means that a schema is broken."""
    try:
        return work()
    except (KeyboardInterrupt, SystemExit, TooMuchWorkError, BrokenSchemaError):
        raise
    except BaseException as error:  # noqa: BLE001  # boundary: a panic of its Rust parts is one
        raise BrokenSchemaError(_reason(error)) from None


def _empty_registry() -> Any:
    """Return a registry without schemas: one may not make this client fetch anything."""
    import referencing  # noqa: PLC0415

    return cast("Any", referencing).Registry()


@lru_cache(maxsize=16)
def _exact_class(rules: Any) -> Any:
    from jsonschema import validators  # noqa: PLC0415

    def is_integer(_checker: object, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    types = rules.TYPE_CHECKER.redefine("integer", is_integer)
    return cast("Any", validators).extend(rules, type_checker=types)


def _violation(error: Any) -> Violation:
    branches: list[tuple[Violation, ...]] = []
    if error.validator in {"anyOf", "oneOf"} and error.context:
        for index, part in enumerate(error.validator_value):
            # The library reports no path for a part that is `false`.
            where = () if part is False else (index,)
            errors = [each for each in error.context if (*each.relative_schema_path,)[:1] == where]
            branches.append(tuple(map(_violation, errors)))
    return Violation(
        path=tuple(error.relative_path),
        keyword=error.validator or "",
        expected=error.validator_value,
        value=error.instance,
        schema=error.schema,
        branches=tuple(branches),
    )


def _reason(error: BaseException) -> str:
    """Say why checking failed, without the values that the library's own texts quote."""
    from jsonschema.exceptions import SchemaError, UnknownType  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    match error:
        case SchemaError():
            return one_line(f"{error.json_path}: {error.message}")
        case Unresolvable():
            return one_line(f"the reference {error.ref!r} leads nowhere in it")
        case UnknownType():
            return one_line(f"there is no type {cast('Any', error).type!r}")
        case RecursionError():
            return "nesting or references go too deep"
        case _:
            return f"checking with it fails ({type(error).__name__})"


@lru_cache(maxsize=32)
def _bounded(rules: Any, *, has_named_patterns: bool) -> Any:
    """Return a validator class of `jsonschema` whose rules take bounded time.

    With `patternProperties` in it, unevaluated properties are allowed: the library would search
    for them with the patterns.
    """
    from jsonschema import validators  # noqa: PLC0415  # 0.1 s many never need
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415

    known: dict[str, Rule] = dict(rules.VALIDATORS)
    error: Callable[[str], Any] = ValidationError

    def pattern(validator: Any, expected: Any, value: Any, _schema: Any) -> Iterable[Any]:
        if validator.is_type(value, "string") and found(expected, value) is False:
            yield error(f"{value!r} does not match {expected!r}")

    def pattern_properties(
        validator: Any, expected: Any, value: Any, _schema: Any
    ) -> Generator[Any, None, None]:
        if validator.is_type(value, "object"):
            for name_pattern, part in expected.items():
                for name, inner in value.items():
                    if found(name_pattern, name):
                        yield from validator.descend(
                            inner, part, path=name, schema_path=name_pattern
                        )

    def additional_properties(
        validator: Any, expected: Any, value: Any, schema: Any
    ) -> Iterable[Any] | None:
        """Apply the rule with our search; a name that a pattern may match is no additional one."""
        patterns: Mapping[str, Any] | None = schema.get("patternProperties")
        if patterns and validator.is_type(value, "object"):
            value = {
                name: inner
                for name, inner in value.items()
                if all(found(one, name) is False for one in patterns)
            }
            schema = {key: part for key, part in schema.items() if key != "patternProperties"}
        return known["additionalProperties"](validator, expected, value, schema)

    def unique_items(validator: Any, expected: Any, value: Any, _schema: Any) -> Iterable[Any]:
        """Find repeated items by their JSON: the library compares each with each."""
        if expected and validator.is_type(value, "array"):
            written = {json.dumps(item, sort_keys=True, default=repr) for item in value}
            if len(written) < len(value):
                yield error("it contains the same item twice")

    def allow(_validator: Any, _expected: Any, _value: Any, _schema: Any) -> None:
        return None

    def stepping(rule: Rule) -> Rule:
        def step(validator: Any, expected: Any, value: Any, schema: Any) -> Iterable[Any] | None:
            count = len(cast("list[Any]", expected)) if isinstance(expected, list) else 0
            take_step(1 + count // 20)
            if isinstance(value, dict | list) and len(cast("Any", value)) > MAX_VALUE_ENTRIES:
                raise TooMuchWorkError(f"the value has more than {MAX_VALUE_ENTRIES:,} entries")
            return rule(validator, expected, value, schema)

        return step

    own: dict[str, Rule] = {
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional_properties,
        "uniqueItems": unique_items,
    }
    if has_named_patterns:
        own["unevaluatedProperties"] = allow
    made = {name: stepping(own.get(name, rule)) for name, rule in known.items()}
    return cast("Any", validators).extend(rules, made)


_TYPES: dict[str, set[type]] = {
    "string": {str},
    "integer": {int},
    "number": {int, float},
    "boolean": {bool},
    "object": {dict},
    "array": {list},
    "null": {type(None)},
}


def _test_of(schema: Any, known: Container[str]) -> Test | None:
    """Compile the fast test of a schema, or `None` if one of its rules has none.

    `known` are the keywords of the dialect.
    """
    if not isinstance(schema, dict):
        return (lambda _: True) if schema is True else None
    tests: list[Test] = []
    for keyword, expected in cast("dict[str, Any]", schema).items():
        # An unknown keyword is no rule, and formats are not checked.
        if keyword in known and keyword != "format":
            test = _test_of_rule(keyword, expected, cast("dict[str, Any]", schema), known)
            if test is None:
                return None
            tests.append(test)

    def keeps_all(value: object) -> bool:
        for test in tests:  # noqa: SIM110  # a generator costs more than the tests themselves
            if not test(value):
                return False
        return True

    return tests[0] if len(tests) == 1 else keeps_all


def _test_of_rule(
    keyword: str, expected: Any, schema: dict[str, Any], known: Container[str]
) -> Test | None:
    match keyword:
        case "type":
            names: list[str] = [expected] if isinstance(expected, str) else expected
            types = frozenset[type]().union(*(_TYPES[name] for name in names))
            return lambda value: type(value) in types
        case "enum":
            texts = frozenset(option for option in expected if isinstance(option, str))
            return lambda value: type(value) is str and value in texts
        case "minimum":
            return lambda value: type(value) in _TYPES["number"] and value >= expected
        case "maximum":
            return lambda value: type(value) in _TYPES["number"] and value <= expected
        case "minLength":
            return lambda value: type(value) is str and len(value) >= expected
        case "maxLength":
            return lambda value: type(value) is str and len(value) <= expected
        case "anyOf":
            options = [test for part in expected if (test := _test_of(part, known)) is not None]
            return lambda value: any(test(value) for test in options)
        case "items":
            return _test_of_items(_test_of(expected, known))
        case "properties":
            return _test_of_properties(
                {name: _test_of(one, known) for name, one in expected.items()}
            )
        case "required":
            return lambda value: type(value) is dict and all(name in value for name in expected)
        case "additionalProperties":
            if expected is True:
                return lambda _: True
            names_of = frozenset(schema.get("properties", ()))
            return lambda value: type(value) is dict and value.keys() <= names_of
        case _:
            return None


def _test_of_items(test: Test | None) -> Test | None:
    if test is None:
        return None

    def keeps_everywhere(value: Any) -> bool:
        if type(value) is not list:
            return False
        items = cast("list[Any]", value)
        for start in range(0, len(items), ITEMS_PER_STEP):
            if start:
                take_step()
            if not all(map(test, items[start : start + ITEMS_PER_STEP])):
                return False
        return True

    return keeps_everywhere


def _test_of_properties(tests: dict[str, Test | None]) -> Test:
    def keeps_each(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for name, inner in cast("dict[str, Any]", value).items():
            if name in tests and ((test := tests[name]) is None or not test(inner)):
                return False
        return True

    return keeps_each
