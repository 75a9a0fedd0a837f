"""Configuration values as written, with their locations, and the problems found in them."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NoReturn, TypeVar, cast

from plait.errors import ConfigError, Problem

if TYPE_CHECKING:
    from plait.client.config.variables import Variables

T = TypeVar("T")

Unit = Literal["seconds", "milliseconds"]

_PLAIN_STEP = re.compile(r"[\w$@-]+")


class Problems:
    """The problems found while reading, in order."""

    def __init__(self) -> None:
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []

    def finish(self, logger: logging.Logger) -> None:
        """Log the warnings, or raise one error that lists all errors."""
        if self.errors:
            raise ConfigError.from_problems(self.errors)
        for warning in self.warnings:
            logger.warning("%s", warning)


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a configuration, at which problems are recorded."""

    problems: Problems = field(repr=False)
    file: str | None = None
    path: str = ""

    def at(self, step: str | int) -> Location:
        """Return the location of a key or a list index inside this one."""
        if isinstance(step, int):
            return replace(self, path=f"{self.path}[{step}]")
        if not _PLAIN_STEP.fullmatch(step):
            return replace(self, path=f"{self.path}[{json.dumps(step, ensure_ascii=False)}]")
        return replace(self, path=f"{self.path}.{step}" if self.path else step)

    def error(self, code: str, message: str, suggestion: str | None = None) -> None:
        """Record a problem that makes the configuration invalid."""
        self._record(self.problems.errors, code, message, suggestion)

    def warn(self, code: str, message: str, suggestion: str | None = None) -> None:
        """Record something suspicious that can still be read."""
        self._record(self.problems.warnings, code, message, suggestion)

    def flag(self, code: str, message: str, suggestion: str | None = None) -> None:
        """Warn in a file, which other programs may share; record an error in Python values."""
        record = self.error if self.file is None else self.warn
        record(code, message, suggestion)

    def _record(
        self, recorded: list[Problem], code: str, message: str, suggestion: str | None
    ) -> None:
        problem = Problem(
            file=self.file, path=self.path, code=code, message=message, suggestion=suggestion
        )
        # Two checks may report the same value, such as a URL.
        if problem not in recorded:
            recorded.append(problem)


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
