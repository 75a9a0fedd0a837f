"""The exceptions of the reasoning server."""

from __future__ import annotations

from typing import Any

from plait.errors.base import PlaitError


class ReasoningError(PlaitError):
    """The reasoning server could not carry out a request."""

    kind = "domain"


class BackendError(ReasoningError):
    """The backend that writes the thoughts could not be reached, or refused.

    `retryable` is set per error, and `retry` with it: repeating a model request is safe.
    """

    kind = "transport"

    def __init__(
        self, message: str, *, backend: str | None = None, retryable: bool = False, **details: Any
    ) -> None:
        details.setdefault("retry", "always" if retryable else "never")
        super().__init__(message, retryable=retryable, **details)
        self.backend = backend
        """The name of the backend: `langbase`, `model`, `openai`, `sampling`, ..."""

    def to_dict(self) -> dict[str, object]:
        """Describe the error as plain data, with the name of the backend."""
        return super().to_dict() | ({"backend": self.backend} if self.backend else {})


class ReplyError(ReasoningError):
    """A model replied twice without the requested JSON."""


class HostHasNoModelError(ReasoningError):
    """The server has no model; the calling model must write the thoughts."""


class RefusedError(ReasoningError):
    """The call does not fit the session or the tool; nothing was changed, and the text says why."""


class UnknownIdError(RefusedError):
    """No value of the session has this id."""

    def __init__(self, message: str, *, key: str = "", **details: Any) -> None:
        super().__init__(message, **details)
        self.key = key
        """The id that was not found."""


class SessionNotFoundError(UnknownIdError):
    """There is no session with this id."""


class ThoughtNotFoundError(UnknownIdError):
    """There is no thought with this id, or not in this session."""


class BranchNotFoundError(UnknownIdError):
    """There is no branch with this id, or not in this session."""


class CheckpointNotFoundError(UnknownIdError):
    """There is no checkpoint with this id."""


class GraphNotFoundError(UnknownIdError):
    """There is no graph with this id, or not in this session."""


class NodeNotFoundError(UnknownIdError):
    """There is no node with this id in the graph."""
