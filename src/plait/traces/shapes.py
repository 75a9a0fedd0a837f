"""Checks that decoded values have the types of their fields, since a file may contain anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Fits = Callable[[Any], bool]

_LARGEST = 1e15
"""No count, size or time of a run is larger; pages and sums can show those up to it."""


def misfits(value: object) -> list[str]:
    """Return the names of the fields of a dataclass whose values have other types."""
    return [name for name, fits in _fields_of(type(value)) if not fits(getattr(value, name))]


@cache
def _fields_of(kind: type) -> Sequence[tuple[str, Fits]]:
    hints = get_type_hints(kind)
    return [(field.name, _check_of(hints[field.name])) for field in fields(kind)]


@cache
def _check_of(hint: Any) -> Fits:
    kind: Any = get_origin(hint) or hint
    inner = get_args(hint)
    if hint is Any:
        return _anything
    if kind in {Union, UnionType}:
        return _any_of([_check_of(one) for one in inner])
    if kind is Literal:  # later versions may know more
        return _check_of(str)
    if kind in {int, float}:
        return _number(int if kind is int else (int, float))
    if inner and issubclass(kind, Mapping):
        return _all_of(dict, dict[Any, Any].values, _check_of(inner[1]))
    if inner and issubclass(kind, Iterable):
        return _all_of(kind, iter, _check_of(inner[0]))
    if isinstance(kind, type) and is_dataclass(kind):
        return lambda value: isinstance(value, kind) and not misfits(value)
    return lambda value: isinstance(value, kind)


def _anything(_value: object) -> bool:
    return True


def _any_of(checks: Sequence[Fits]) -> Fits:
    return lambda value: any(fits(value) for fits in checks)


def _all_of(kind: Any, items: Callable[[Any], Iterable[Any]], fits: Fits) -> Fits:
    if fits is _anything:
        return lambda value: isinstance(value, kind)
    return lambda value: isinstance(value, kind) and all(map(fits, items(value)))


def _number(kinds: type | tuple[type, ...]) -> Fits:
    def check(value: Any) -> bool:
        is_number = isinstance(value, kinds) and not isinstance(value, bool)
        return is_number and -_LARGEST <= value <= _LARGEST

    return check
