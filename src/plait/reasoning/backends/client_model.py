"""Backends that use the model of the MCP client: it writes the thoughts, or answers sampling."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from plait.errors import HostHasNoModelError
from plait.reasoning.backends.port import Completion, Prompt

Sample: TypeAlias = Callable[[Prompt], Awaitable[Completion]]
"""Asks the client of the request at hand."""


class HostCompleter:
    """Completes nothing; modes see its name and ask the caller for what a model would write."""

    name = "host"

    def describe(self) -> str:
        """Say who thinks."""
        return "the calling model writes the thoughts"

    async def open(self) -> None:
        """Do nothing."""

    async def complete(self, prompt: Prompt) -> Completion:
        """Refuse: there is no model.

        Raises:
            HostHasNoModelError: Always.
        """
        raise HostHasNoModelError(
            f"no model can be asked for {prompt.pipe!r}: the backend is host, "
            "so the caller supplies the thoughts"
        )

    async def aclose(self) -> None:
        """Do nothing."""


class SamplingCompleter:
    """Completes prompts for one request; the server makes one for each."""

    name = "sampling"

    def __init__(self, sample: Sample) -> None:
        self._sample = sample

    def describe(self) -> str:
        """Say who answers."""
        return "the model of the connected client, through MCP sampling"

    async def open(self) -> None:
        """Do nothing: the client is there, since it made the request."""

    async def complete(self, prompt: Prompt) -> Completion:
        """Ask the client; errors of the server part pass through."""
        return await self._sample(prompt)

    async def aclose(self) -> None:
        """Do nothing."""
