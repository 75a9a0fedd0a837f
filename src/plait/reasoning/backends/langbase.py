"""The backend that runs pipes of Langbase, and the names and settings of the pipes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from http import HTTPStatus
from typing import Any, Final, cast

from plait._support.gather import gather_or_cancel
from plait.reasoning.backends.http import HttpCompleter, completion_with
from plait.reasoning.backends.port import Completion, Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeNames:
    """The pipe of each mode."""

    linear: str = "linear-reasoning-v1"
    tree: str = "tree-reasoning-v1"
    divergent: str = "divergent-reasoning-v1"
    reflection: str = "reflection-v1"
    auto: str = "mode-router-v1"
    backtracking: str = "backtracking-reasoning-v1"
    got_generate: str = "got-generate-v1"
    got_score: str = "got-score-v1"
    got_aggregate: str = "got-aggregate-v1"
    got_refine: str = "got-refine-v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipeSettings:
    """The model settings of a pipe."""

    temperature: float
    max_tokens: int


PIPE_SETTINGS: Final[Mapping[str, PipeSettings]] = {
    "linear": PipeSettings(temperature=0.7, max_tokens=2000),
    "tree": PipeSettings(temperature=0.8, max_tokens=3000),
    "divergent": PipeSettings(temperature=0.9, max_tokens=3000),
    "reflection": PipeSettings(temperature=0.6, max_tokens=2500),
    "auto": PipeSettings(temperature=0.5, max_tokens=1000),
    "backtracking": PipeSettings(temperature=0.7, max_tokens=2000),
    "got_generate": PipeSettings(temperature=0.7, max_tokens=2500),
    "got_score": PipeSettings(temperature=0.7, max_tokens=2500),
    "got_aggregate": PipeSettings(temperature=0.7, max_tokens=2500),
    "got_refine": PipeSettings(temperature=0.7, max_tokens=2500),
}
"""By the fields of `PipeNames`; other backends use the same values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipe(PipeSettings):
    """A pipe to create at Langbase."""

    name: str
    system: str | None = None
    """Its default system prompt; every request has one too."""


def pipes_of(names: PipeNames, prompts: Mapping[str, str]) -> tuple[Pipe, ...]:
    """Return the pipes to create; `prompts` are the system prompts by mode.

    A pipe that modes share has no default prompt, and the settings of the first mode.
    """
    modes = {field.name: str(getattr(names, field.name)) for field in fields(names)}
    pipes: dict[str, Pipe] = {}
    for mode, name in modes.items():
        shared = list(modes.values()).count(name) > 1
        system = None if shared else prompts.get(mode)
        pipes.setdefault(name, Pipe(name=name, system=system, **asdict(PIPE_SETTINGS[mode])))
    return tuple(pipes.values())


BASE_URL: Final = "https://api.langbase.com"

PIPE_MODEL: Final = "openai:gpt-4o-mini"
"""The model of a new pipe."""

_MAX_CONCURRENT: Final = 4


class LangbaseCompleter(HttpCompleter):
    """Runs a pipe for each prompt; `open` creates the pipes.

    Langbase keeps no conversations: each prompt is complete. `options` are those of
    `HttpCompleter`.
    """

    name = "langbase"

    def __init__(
        self, key: str, *, base_url: str = BASE_URL, pipes: Iterable[Pipe] = (), **options: Any
    ) -> None:
        super().__init__(base_url, key=key, **options)
        self._pipes = tuple(pipes)

    def describe(self) -> str:
        """Return where the pipes run."""
        return f"Langbase pipes at {self._where}"

    async def open(self) -> None:
        """Create or update the pipes."""
        limit = asyncio.Semaphore(_MAX_CONCURRENT)
        await gather_or_cancel(self._ensure(pipe, limit) for pipe in self._pipes)

    async def complete(self, prompt: Prompt) -> Completion:
        """Run the pipe of the prompt."""
        reply = await self._send("/v1/pipes/run", run_body(prompt))
        if (completion := completion_from_run(reply.body)) is None:
            raise self._unusable(reply)
        return completion

    async def _ensure(self, pipe: Pipe, limit: asyncio.Semaphore) -> None:
        async with limit:
            # A pipe that exists and may not be changed can be used.
            await self._send("/v1/pipes", pipe_body(pipe), allowed=(HTTPStatus.CONFLICT,))


def pipe_body(pipe: Pipe) -> dict[str, Any]:
    """Return the request that creates or updates a pipe."""
    body: dict[str, Any] = {
        "name": pipe.name,
        "status": "private",
        "model": PIPE_MODEL,
        "upsert": True,
        "stream": False,
        "json": True,
        "store": False,
        "temperature": pipe.temperature,
        "max_tokens": pipe.max_tokens,
    }
    if pipe.system is not None:
        body["messages"] = [{"role": "system", "content": pipe.system}]
    return body


def run_body(prompt: Prompt) -> dict[str, Any]:
    """Return the request that runs a pipe."""
    body: dict[str, Any] = {
        "name": prompt.pipe,
        "messages": [
            {"role": "system", "content": prompt.system},
            {"role": "user", "content": prompt.user},
        ],
        # Pipes stream by default.
        "stream": False,
    }
    if prompt.variables:
        body["variables"] = [
            {"name": name, "value": value} for name, value in prompt.variables.items()
        ]
    return body


def completion_from_run(body: Mapping[str, Any]) -> Completion | None:
    """Return the completion of a pipe; `None` if it failed or has no text.

    Model and usage are beside the completion, or in `raw`.
    """
    text: object = body.get("completion")
    if body.get("success") is False or not isinstance(text, str):
        return None
    raw = body.get("raw")
    details = cast("Mapping[str, Any]", raw) if isinstance(raw, Mapping) else body
    return completion_with(text, details)
