"""The result of an operation that returns its failure instead of raising it."""

from __future__ import annotations

import functools
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OperationError:
    """Why an operation failed."""

    exception: Exception

    @property
    def message(self) -> str:
        """The text of the exception."""
        return str(self.exception)

    def __str__(self) -> str:
        return self.message


class OperationResult:
    """Whether an operation succeeded, and its errors."""

    __slots__ = ("_errors", "_succeeded")

    def __init__(self, *, succeeded: bool, errors: tuple[OperationError, ...] = ()) -> None:
        self._succeeded = succeeded
        self._errors = errors

    @property
    def succeeded(self) -> bool:
        """Whether the operation succeeded."""
        return self._succeeded

    @property
    def errors(self) -> list[OperationError]:
        """A copy of the list of errors."""
        return list(self._errors)

    @staticmethod
    @functools.cache
    def success() -> OperationResult:
        """Return the shared result of success."""
        return OperationResult(succeeded=True)

    @staticmethod
    def failed(*errors: OperationError) -> OperationResult:
        """Return a failure."""
        return OperationResult(succeeded=False, errors=errors)

    def __str__(self) -> str:
        if self._succeeded:
            return "Succeeded"
        return f"Failed: {', '.join(map(str, self._errors))}" if self._errors else "Failed"

    def __repr__(self) -> str:
        return f"<OperationResult {self}>"
