"""Validating values against JSON schemas of servers: compiled once, without fetching anything.

Importing `jsonschema` takes 0.1 s and reads files, so call `prepare` first inside an event loop.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

from cachetools import LRUCache

from plait._support.exception_groups import one_line
from plait._support.threads import in_thread, lock_across_forks
from plait.client.catalog.allowance import (
    TooMuchWorkError,
    allowed_seconds,
    run_test,
    take_step_of_test,
)
from plait.client.catalog.bounded_rules import DATA_KEYWORDS, bounded, parts_of, patterns_in
from plait.client.catalog.patterns import LONGEST_PATTERN, can_search

T = TypeVar("T")

Path = tuple[str | int, ...]
"""The keys and indexes that lead to a value."""

Test = Callable[[Any], bool]
"""Returns true if a value is certainly valid; false means unknown."""

_PLAIN_NAME = re.compile(r"[\w$@-]{1,60}")
_MAX_SCHEMAS = 256
"""Enough for the tools of a dozen servers."""
_MOST_ENTRIES = 20_000
"""A schema with more of them takes seconds to compile."""
_MOST_QUICK = 500
"""Larger schemas have no fast test: its time is not bounded by steps."""
_ITEMS_PER_STEP = 64


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

    def surely_accepts(self, value: object) -> bool:
        """Return true, fast, for a value that is certainly valid; false means unknown.

        A number such as 3.0 is never certainly an integer.
        """
        return self._quick is not None and self._quick(value)

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
        rules = exact(self._rules.schema, registry=_no_registry())
        return SchemaValidator(schema=self.schema, _rules=rules)

    def narrowed(self, schema: object) -> SchemaValidator:
        """Return a validator for a part of this schema; its references keep their meaning."""
        if self.broken is not None:
            return self
        rules = _guarded(lambda: self._rules.evolve(schema=schema))
        return SchemaValidator(schema=schema, _rules=rules)


_lock = lock_across_forks()
_compiled: LRUCache[str, SchemaValidator] = LRUCache(_MAX_SCHEMAS)
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
        validator = _guarded(lambda: _compile(decoded))
    except BrokenSchemaError as error:
        validator = SchemaValidator(schema=decoded, broken=str(error))
    with _lock:
        _compiled[key] = validator
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
        known = _compiled.get(key)
        if known is not None:
            if len(_recent) >= _MAX_SCHEMAS:
                _recent.clear()
            _recent[id(schema)] = (schema, known)
    return known


def _key(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, sort_keys=True, default=_plain)


def _plain(value: object) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _compile(schema: Any) -> SchemaValidator:
    from jsonschema import validators  # noqa: PLC0415  # 0.1 s many never need

    size = sum(map(len, parts_of(schema)))
    if size > _MOST_ENTRIES:
        raise BrokenSchemaError(f"it has more than {_MOST_ENTRIES:,} entries")
    dialect: Any = validators.validator_for(schema)
    # Its rule for the format of patterns would be that of Python.
    dialect.check_schema(schema, format_checker=None)
    patterns, for_names = patterns_in(schema)
    unchecked = tuple(sorted(one for one in patterns if not can_search(one)))
    for pattern in unchecked:
        if not _is_expression(pattern):
            raise BrokenSchemaError(one_line(f"{pattern!r} is no regular expression"))
    rules = bounded(dialect, with_patterns=for_names)
    # The dialect is chosen; a part must not choose another one, whose rules have no bound.
    root = _without_dialect(schema)
    # Older dialects give some keywords another meaning.
    modern = dialect.__name__ not in {"Draft3Validator", "Draft4Validator"}
    quick = _test_of(root, rules.VALIDATORS) if modern and size <= _MOST_QUICK else None
    return SchemaValidator(
        schema=schema,
        unchecked=unchecked,
        _rules=rules(root, registry=_no_registry()),
        _quick=partial(run_test, quick) if quick is not None and _has_items(root) else quick,
    )


def _has_items(schema: object) -> bool:
    """Return whether a fast test may look at each item of a list, and so has to be bounded."""
    if isinstance(schema, dict):
        parts = cast("dict[str, object]", schema)
        return "items" in parts or any(map(_has_items, parts.values()))
    return isinstance(schema, list) and any(map(_has_items, cast("list[object]", schema)))


def _is_expression(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return len(pattern) > LONGEST_PATTERN
    return True


def _without_dialect(part: Any) -> Any:
    if isinstance(part, list):
        return [_without_dialect(one) for one in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    return {
        key: inner if key in DATA_KEYWORDS else _without_dialect(inner)
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


def _no_registry() -> Any:
    """Return an empty registry: a schema may not make this client fetch anything."""
    import referencing  # noqa: PLC0415

    return cast("Any", referencing).Registry()


@lru_cache(maxsize=16)
def _exact_class(rules: Any) -> Any:
    from jsonschema import validators  # noqa: PLC0415

    types = rules.TYPE_CHECKER.redefine("integer", _is_exact_integer)
    return cast("Any", validators).extend(rules, type_checker=types)


def _is_exact_integer(_checker: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


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
    return tests[0] if len(tests) == 1 else partial(_keeps_all, tests)


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
            each = _test_of(expected, known)
            return each and partial(_keeps_everywhere, each)
        case "properties":
            by_name = {name: _test_of(part, known) for name, part in expected.items()}
            return partial(_keeps_each, by_name)
        case "required":
            return lambda value: type(value) is dict and all(name in value for name in expected)
        case "additionalProperties":
            known_names = frozenset(schema.get("properties", ()))
            return lambda value: (
                expected is True or (type(value) is dict and value.keys() <= known_names)
            )
        case _:
            return None


def _keeps_all(tests: list[Test], value: object) -> bool:
    for test in tests:  # noqa: SIM110  # a generator costs more than the tests themselves
        if not test(value):
            return False
    return True


def _keeps_everywhere(test: Test, value: Any) -> bool:
    if type(value) is not list:
        return False
    items = cast("list[Any]", value)
    if len(items) <= _ITEMS_PER_STEP:
        return all(map(test, items))
    for start in range(0, len(items), _ITEMS_PER_STEP):
        take_step_of_test()
        if not all(map(test, items[start : start + _ITEMS_PER_STEP])):
            return False
    return True


def _keeps_each(tests: dict[str, Test | None], value: Any) -> bool:
    if type(value) is not dict:
        return False
    for name, inner in cast("dict[str, Any]", value).items():
        if name in tests:
            test = tests[name]
            if test is None or not test(inner):
                return False
    return True
