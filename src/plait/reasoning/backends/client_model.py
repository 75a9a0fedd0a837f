"""Backends that use the model of the MCP client: it writes the thoughts, or answers sampling."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from plait.errors import HostHasNoModelError
from plait.reasoning.backends.port import Completer, Completion, Prompt

Sample: TypeAlias = Callable[[Prompt], Awaitable[Completion]]
"""Sends a sampling request to the client of the current request."""


class HostCompleter(Completer):
    """Has no model: the modes see its name, and the caller writes the thoughts."""

    name = "host"

    def describe(self) -> str:
        """Return who writes the thoughts."""
        return "the calling model writes the thoughts"

    async def complete(self, prompt: Prompt) -> Completion:
        """Raise an error: there is no model.

        Raises:
            HostHasNoModelError: Always.
        """
        raise HostHasNoModelError(
            f"no model can be asked for {prompt.pipe!r}: the backend is host, "
            "so the caller supplies the thoughts"
        )


class SamplingCompleter(Completer):
    """Completes prompts through sampling, for one request of a client."""

    name = "sampling"

    def __init__(self, sample: Sample) -> None:
        self._sample = sample

    def describe(self) -> str:
        """Return who answers."""
        return "the model of the connected client, through MCP sampling"

    async def complete(self, prompt: Prompt) -> Completion:
        """Send the prompt to the client."""
        return await self._sample(prompt)
