"""What the tests of several backends use: a prompt, pipes, and a clock that does not wait."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from plait.reasoning.backends.http import LangbaseCompleter, OpenAICompatibleCompleter, PipeNames
from plait.reasoning.backends.port import Completer, Prompt

ONE_PIPE = PipeNames(**dict.fromkeys(asdict(PipeNames()), "linear-reasoning-v1"))
"""One pipe for all modes."""


def prompt(user: str = "What boils?", *, system: str = "Answer in JSON.") -> Prompt:
    """Make a prompt for a test."""
    return Prompt(
        pipe="linear-reasoning-v1", system=system, user=user, temperature=0.7, max_tokens=2000
    )


@asynccontextmanager
async def opened(completer: Completer) -> AsyncGenerator[Completer]:
    """Open a backend, and close it at the end."""
    try:
        await completer.open()
        yield completer
    finally:
        await completer.aclose()


def langbase(
    url: str, key: str = "user_key", *, pipes: PipeNames | None = ONE_PIPE, **options: Any
) -> LangbaseCompleter:
    """Return the backend for a stand-in of Langbase."""
    return LangbaseCompleter(key, base_url=url, pipes=pipes, **options)


def openai(
    url: str, *, model: str | None = "test-model", **options: Any
) -> OpenAICompatibleCompleter:
    """Return the backend for a stand-in with OpenAI's protocol."""
    return OpenAICompatibleCompleter(url, model=model, **options)
