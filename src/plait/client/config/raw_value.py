"""One value as it was written, and the words in which to refuse it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum, auto
from typing import Final, Literal, cast

from plait.client.config.problems import Location
from plait.client.config.variables import Variables

Unit = Literal["seconds", "milliseconds"]


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = auto()


UNSET: Final = Unset.UNSET
"""Nothing to set: the value was refused, or says that the default is meant."""


@dataclass(frozen=True, slots=True)
class RawValue:
    """A value from a configuration, its place, and how to read it."""

    value: object

    location: Location

    variables: Variables

    unit: Unit = "seconds"
    """What a bare number means if it is a duration."""

    def child(self, step: str | int, value: object) -> RawValue:
        """Return a value that lies within this one."""
        return replace(self, value=value, location=self.location.at(step))

    def reject(self, code: str, message: str, suggestion: str | None = None) -> Unset:
        """Record why the value cannot be used."""
        self.location.error(code, message, suggestion)
        return UNSET

    def wrong_type(self, expected: str, suggestion: str | None = None) -> Unset:
        """Record that the value is of another type; the value itself is not quoted."""
        message = f"expected {expected}, found {describe(self.value)}"
        return self.reject("wrong_type", message, suggestion)

    def text(self, expected: str = "a string", suggestion: str | None = None) -> str | Unset:
        """Read a string, or a path object, with its variables replaced."""
        value = self.value
        if isinstance(value, os.PathLike):
            value = os.fspath(cast("os.PathLike[str]", value))
        if not isinstance(value, str):
            return self.wrong_type(expected, suggestion)
        expanded = self.variables.expand(value, self.location)
        if expanded is not None and "\0" in expanded:
            return self.reject("bad_value", "holds a NUL character, which no program takes")
        return UNSET if expanded is None else expanded

    def scalar(self) -> object:
        """Read the value; a string with variables may turn out to be a number or a boolean."""
        if not isinstance(self.value, str) or "${" not in self.value:
            return self.value
        expanded = self.variables.expand(self.value, self.location)
        if expanded is None:
            return UNSET
        try:
            return json.loads(expanded)
        except (ValueError, RecursionError):
            return expanded

    def is_object(self, expected: str, suggestion: str | None = None) -> bool:
        """Check for an object with keys."""
        if as_mapping(self.value) is None:
            self.wrong_type(expected, suggestion)
            return False
        return True

    def entries(self) -> Iterator[tuple[str, RawValue]]:
        """Yield the keys and values of an object; keys that are no strings are refused."""
        for key, value in (as_mapping(self.value) or {}).items():
            if isinstance(key, str):
                yield key, self.child(key, value)
            else:
                self.reject("wrong_type", f"keys are strings, found {describe(key)}")

    def is_list(self, expected: str, suggestion: str | None = None) -> bool:
        """Check for a list."""
        if as_list(self.value) is None:
            self.wrong_type(expected, suggestion)
            return False
        return True

    def items(self) -> Iterator[RawValue]:
        """Yield the values of a list."""
        for index, value in enumerate(as_list(self.value) or ()):
            yield self.child(index, value)


Reader = Callable[[RawValue], object]
"""Checks a value and returns what to store, or `UNSET` after recording why not."""


def as_mapping(value: object) -> Mapping[object, object] | None:
    """Return the value if it is an object with keys."""
    return cast("Mapping[object, object]", value) if isinstance(value, Mapping) else None


def as_list(value: object) -> Sequence[object] | None:
    """Return the value if it is a list, or one of its like in Python."""
    if isinstance(value, (set, frozenset)):
        return sorted(cast("set[object]", value), key=str)
    return cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else None


def describe(value: object) -> str:
    """Name the type of a value in words that fit JSON and Python, without showing the value."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return "a number"
        case str():
            return "a string" if value else "an empty string"
        case timedelta():
            return "a timedelta"
        case Mapping():
            return "an object"
        case list() | tuple() | set() | frozenset():
            return "a list"
        case type():
            return f"the class {value.__name__}"
        case _:
            return f"a {type(value).__name__} object"
