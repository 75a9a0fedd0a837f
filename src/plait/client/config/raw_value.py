"""One configuration value as written, with its location, and how to reject it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NoReturn, TypeVar, cast

if TYPE_CHECKING:
    from plait.client.config.problems import Location
    from plait.client.config.variables import Variables

T = TypeVar("T")

Unit = Literal["seconds", "milliseconds"]


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = auto()


UNSET: Final = Unset.UNSET
"""No value, where `None` is a value."""


class RejectedError(Exception):
    """A value cannot be used, and the reason has been recorded."""


@dataclass(frozen=True, slots=True)
class RawValue:
    """A value from a configuration, its location, and how to read it."""

    value: object
    location: Location
    variables: Variables
    unit: Unit = "seconds"
    """The unit of a bare number if it is a duration."""

    def child(self, step: str | int, value: object) -> RawValue:
        """Return a value inside this one."""
        return replace(self, value=value, location=self.location.at(step))

    def reject(self, code: str, message: str, suggestion: str | None = None) -> NoReturn:
        """Record why the value cannot be used, and raise `RejectedError`."""
        self.location.error(code, message, suggestion)
        raise RejectedError

    def reject_type(self, expected: str, suggestion: str | None = None) -> NoReturn:
        """Record that the value has the wrong type, without quoting it."""
        self.reject("wrong_type", f"expected {expected}, found {describe(self.value)}", suggestion)

    def text(self, expected: str = "a string", suggestion: str | None = None) -> str:
        """Read a string or a path object, with its variables replaced."""
        value = self.value
        if isinstance(value, os.PathLike):
            value = os.fspath(cast("os.PathLike[str]", value))
        if not isinstance(value, str):
            self.reject_type(expected, suggestion)
        expanded = self._expanded(value)
        if "\0" in expanded:
            self.reject("bad_value", "contains a NUL character, which no program accepts")
        return expanded

    def scalar(self) -> object:
        """Read the value; a string with variables may expand to a number or a boolean."""
        if not isinstance(self.value, str) or "${" not in self.value:
            return self.value
        expanded = self._expanded(self.value)
        try:
            return json.loads(expanded)
        except (ValueError, RecursionError):
            return expanded

    def _expanded(self, text: str) -> str:
        expanded = self.variables.expand(text, self.location)
        if expanded is None:
            raise RejectedError
        return expanded

    def path(self, text: str) -> Path:
        """Resolve a path against the configuration's folder; `~` is the user's home."""
        path = Path(text)
        if path.parts[:1] == ("~",):
            path = self.variables.home.joinpath(*path.parts[1:])
        return self.variables.folder / path

    def entries(
        self, expected: str = "an object", suggestion: str | None = None
    ) -> list[tuple[str, RawValue]]:
        """Return the keys and values of an object; an error is recorded for each invalid key."""
        entries = as_mapping(self.value)
        if entries is None:
            self.reject_type(expected, suggestion)
        for key in entries:
            if not isinstance(key, str):
                self.location.error("wrong_type", f"keys are strings, found {describe(key)}")
        return [
            (key, self.child(key, value)) for key, value in entries.items() if isinstance(key, str)
        ]

    def items(self, expected: str = "a list", suggestion: str | None = None) -> list[RawValue]:
        """Return the values of a list."""
        items = as_list(self.value)
        if items is None:
            self.reject_type(expected, suggestion)
        return [self.child(index, value) for index, value in enumerate(items)]

    def read_entries(self, read: Callable[[RawValue], T], expected: str) -> dict[str, T]:
        """Read each value of an object, leaving out rejected ones."""
        values: dict[str, T] = {}
        for key, entry in self.entries(expected):
            with suppress(RejectedError):
                values[key] = read(entry)
        return values

    def read_items(
        self, read: Callable[[RawValue], T], expected: str, suggestion: str | None = None
    ) -> tuple[T, ...]:
        """Read each value of a list, leaving out rejected ones."""
        values: list[T] = []
        for item in self.items(expected, suggestion):
            with suppress(RejectedError):
                values.append(read(item))
        return tuple(values)


Reader = Callable[[RawValue], object]
"""Checks a value and returns what to store; `UNSET` keeps the default."""


def as_mapping(value: object) -> Mapping[object, object] | None:
    """Return the value if it is an object with keys."""
    return cast("Mapping[object, object]", value) if isinstance(value, Mapping) else None


def as_list(value: object) -> Sequence[object] | None:
    """Return the value if it is a list, a tuple or a set."""
    if isinstance(value, (set, frozenset)):
        return sorted(cast("set[object]", value), key=str)
    return cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else None


def describe(value: object) -> str:
    """Name the type of a value in words that fit JSON and Python, without showing the value."""
    match value:
        case None | bool():
            return json.dumps(value)
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
