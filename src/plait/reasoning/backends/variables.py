"""Taking typed values out of environment variables, and collecting what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from plait.errors import ConfigError, Problem

ChoiceT = TypeVar("ChoiceT", bound=str)


class Variables:
    """Reads variables one by one; a blank value counts as none.

    What cannot be used is noted without its value, which might be a secret in the wrong place.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._problems: list[Problem] = []

    def text(self, name: str) -> str | None:
        """Return the value, without blanks around it."""
        return self._environ.get(name, "").strip() or None

    def whole(self, name: str, default: int, *, lowest: int, highest: int) -> int:
        """Return a whole number."""
        text = self.text(name)
        if text is None:
            return default
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is not None and lowest <= number <= highest:
            return number
        wanted = f"a whole number from {lowest} to {highest}"
        self.refuse(name, f"must be {wanted}, and is {_kind(text)}")
        return default

    def milliseconds(self, name: str, *, lowest: int) -> float | None:
        """Return a duration in seconds."""
        if self.text(name) is None:
            return None
        day = 24 * 60 * 60 * 1000
        return self.whole(name, lowest, lowest=lowest, highest=day) / 1000

    def share(self, name: str, default: float) -> float:
        """Return a number from 0 to 1."""
        text = self.text(name)
        if text is None:
            return default
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if 0 <= number <= 1:
            return number
        self.refuse(name, f"must be a number from 0 to 1, and is {_kind(text)}")
        return default

    def one_of(self, name: str, choices: Sequence[ChoiceT]) -> ChoiceT | None:
        """Return one of some words, in capitals or not."""
        text = self.text(name)
        if text is None:
            return None
        found = next((choice for choice in choices if choice == text.lower()), None)
        if found is None:
            self.refuse(name, f"must be one of {', '.join(choices)}, and is another word")
        return found

    def refuse(self, name: str, message: str) -> None:
        """Note that a variable cannot be used."""
        self._problems.append(Problem(file=None, path=name, code="bad_value", message=message))

    def raise_problems(self) -> None:
        """Raise everything that was noted.

        Raises:
            ConfigError: Something was.
        """
        if self._problems:
            raise ConfigError.from_problems(self._problems)


def _kind(text: str) -> str:
    """Say what kind of value a text is, without quoting it."""
    try:
        number = float(text)
    except ValueError:
        return "a text"
    if not math.isfinite(number):
        return "not a finite number"
    return "a number outside of it" if number.is_integer() else "a fraction"
