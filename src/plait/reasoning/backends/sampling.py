"""The backend that asks the model of the connected client, through MCP sampling."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from plait.reasoning.backends.port import Completion, Prompt

Sample: TypeAlias = Callable[[Prompt], Awaitable[Completion]]
"""Asks the client of the request at hand."""


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
