"""What a backend of the reasoning server is: something that completes a prompt."""

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
    """Values for the variables of a Langbase pipe; other backends do not send them."""

    temperature: float

    max_tokens: int

    json: bool = True
    """Whether a JSON object must come back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """What a model answered."""

    text: str

    model: str | None = None
    """The model that wrote it, where the backend says."""

    input_tokens: int | None = None

    output_tokens: int | None = None


OnProgress: TypeAlias = Callable[[str], Awaitable[None]]
"""Hears, in one sentence, what is being done while a model works."""


class Completer(Protocol):
    """Completes prompts; opened once, then used by many callers at the same time.

    A completer that fails raises `BackendError`; cancelling a call leaves it usable.
    """

    name: str
    """`langbase`, `model`, `openai`, `sampling`, `local`, `host` or `scripted`."""

    def describe(self) -> str:
        """Say in one line what answers, without any secret."""
        ...

    async def open(self) -> None:
        """Get ready: make what has to be there, or find out that it cannot be."""
        ...

    async def complete(self, prompt: Prompt) -> Completion:
        """Ask the model, and return what it said, which may be anything but what was asked for.

        Raises:
            BackendError: The model could not be reached, or refused.
        """
        ...

    async def aclose(self) -> None:
        """Let go of connections; safe to repeat."""
        ...
