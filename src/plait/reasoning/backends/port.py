"""The protocol of a backend of the reasoning server: it completes prompts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One request to a model."""

    pipe: str
    """The pipe it is for, such as `linear-reasoning-v1`; Langbase runs the one of this name."""
    system: str
    user: str
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Variables of a Langbase pipe; other backends ignore them."""
    temperature: float
    max_tokens: int
    json: bool = True
    """Whether a JSON object must come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The reply of a model."""

    text: str
    model: str | None = None
    """The model that wrote it, if the backend reports it."""
    input_tokens: int | None = None
    output_tokens: int | None = None


OnProgress: TypeAlias = Callable[[str], Awaitable[None]]
"""Receives progress messages while a model works."""


class Completer(Protocol):
    """Completes prompts; opened once, then used by many callers at the same time.

    Failures raise `BackendError`; cancelling a call leaves the completer usable.
    """

    name: str
    """`langbase`, `model`, `openai`, `sampling`, `local`, `host` or `scripted`."""

    def describe(self) -> str:
        """Describe the backend in one line, without secrets."""
        ...

    async def open(self) -> None:
        """Prepare for prompts, and check that the backend can be used; by default, do nothing."""

    async def complete(self, prompt: Prompt) -> Completion:
        """Send the prompt to the model, and return its reply unchecked.

        Raises:
            BackendError: The model could not be reached, or refused.
        """
        ...

    async def aclose(self) -> None:
        """Close connections; safe to repeat. By default, do nothing."""
