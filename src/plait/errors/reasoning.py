"""The errors of the reasoning server."""

from __future__ import annotations

from typing import Any

from plait.errors.base import PlaitError


class ReasoningError(PlaitError):
    """The reasoning server could not do what it was asked to."""

    kind = "domain"


class BackendError(ReasoningError):
    """The backend that writes the thoughts could not be reached, or refused.

    `retryable` and `retry` say of each error whether it may pass: a model that is asked again does
    no harm.
    """

    kind = "transport"

    def __init__(self, message: str, *, backend: str | None = None, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.backend = backend
        """The name of the backend: `langbase`, `model`, `openai`, `sampling`, ..."""

    def to_dict(self) -> dict[str, object]:
        """Describe the error as plain data, with the name of the backend."""
        return super().to_dict() | ({"backend": self.backend} if self.backend else {})


class ReplyError(ReasoningError):
    """A model answered twice, and neither answer was the JSON that it was asked for."""


class HostHasNoModelError(ReasoningError):
    """The calling model is the one that thinks here; the server has none to ask."""


class RefusedError(ReasoningError):
    """The call does not fit the session or the tool; nothing was changed, and the text says why."""
