"""The backend of a model on this machine, run by plait itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from plait.models.local import LocalModel
from plait.reasoning.backends.http import RetryPolicy
from plait.reasoning.backends.openai_compatible import OpenAICompatibleCompleter
from plait.reasoning.backends.port import Completer, Completion, Prompt

_MAX_TOKENS: Final = 800
"""A small model that writes more has lost the thread, and takes minutes for it."""


class LocalCompleter(Completer):
    """Completes prompts with a local model, whose answers are held to the requested JSON.

    `at_once` is how many prompts it works on together.
    """

    name = "local"

    def __init__(self, path: Path, *, model: str, retry: RetryPolicy, at_once: int = 1) -> None:
        self._model = LocalModel(path, at_once=at_once)
        self._name = model
        self._retry = replace(retry, max_retries=0)
        self._inner: OpenAICompatibleCompleter | None = None
        self._url: str | None = None

    def describe(self) -> str:
        """Return the model."""
        return f"{self._name} on this machine"

    async def complete(self, prompt: Prompt) -> Completion:
        """Start the model if it does not run, and send it the prompt."""
        url = await self._model.base_url()
        if self._inner is None or url != self._url:
            await self._close_inner()
            self._url = url
            self._inner = OpenAICompatibleCompleter(
                url, model=self._name, name=self.name, retry=self._retry, by_schema=True
            )
        return await self._inner.complete(
            replace(prompt, max_tokens=min(prompt.max_tokens, _MAX_TOKENS))
        )

    async def _close_inner(self) -> None:
        if self._inner is not None:
            await self._inner.aclose()

    async def aclose(self) -> None:
        """End the model."""
        await self._close_inner()
        await self._model.aclose()
