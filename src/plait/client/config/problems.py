"""Collecting all problems of a configuration, each with its location."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, field, replace

from plait.errors import ConfigError, Problem

_PLAIN_STEP = re.compile(r"[\w$@-]+")


class Problems:
    """The problems found while reading, in order."""

    def __init__(self) -> None:
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []

    def finish(self, logger: logging.Logger) -> None:
        """Log the warnings, or raise one error that lists all errors.

        Raises:
            ConfigError: At least one error was recorded.
        """
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
