"""The protocol of a backend, and the backends without an API: host, sampling and scripted."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, TypeAlias

from pydantic import TypeAdapter, ValidationError

from plait.errors import BackendError, ConfigError, HostHasNoModelError
from plait.models.scripts import ScriptEndError, ScriptPlayer, load_script


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
    schema: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    """The schema of that object, for backends that can hold a model to it."""


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


def fields(facts: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    """Return facts for a log record, which the JSON log shows as fields of their own."""
    return {"fields": facts}


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


Reply: TypeAlias = str | Mapping[str, Any] | Completion | Exception
"""A text, an object to return as JSON, a whole completion, or an error to raise."""

Script: TypeAlias = (
    Sequence[Reply] | Mapping[str, Reply | Sequence[Reply]] | Callable[[Prompt], Reply]
)
"""Replies in order; or by pipe, in order or always the same; or a function of the prompt."""

_FileReply: TypeAlias = str | dict[str, Any]

_FILE: TypeAdapter[list[_FileReply] | dict[str, _FileReply | list[_FileReply]]] = TypeAdapter(
    list[_FileReply] | dict[str, _FileReply | list[_FileReply]]
)


class ScriptedCompleter(Completer):
    """Returns the replies of a script and records the prompts.

    A list is consumed reply by reply. In a mapping from pipe names, a list is consumed too, and a
    single reply is repeated; `"*"` matches every other pipe.
    """

    name = "scripted"

    def __init__(self, script: Script) -> None:
        self._player = ScriptPlayer[Prompt, Reply](script)
        self.prompts: list[Prompt] = []
        """Every prompt, in order of arrival."""

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """Read a script from a JSON file: an array of replies, or an object of them by pipe.

        Raises:
            ConfigError: The file cannot be read, or holds something else.
        """
        try:
            return cls(_FILE.validate_python(load_script(path), strict=True))
        except ValidationError as error:
            raise ConfigError(
                f"{path}: a script is an array of replies, or an object of them by pipe; "
                "a reply is a text or an object"
            ) from error

    def describe(self) -> str:
        """Describe the backend in one line."""
        return "scripted replies, no model"

    async def complete(self, prompt: Prompt) -> Completion:
        """Return the next reply of the script.

        Raises:
            BackendError: The script has no further reply for this pipe.
        """
        self.prompts.append(prompt)
        try:
            reply = self._player.next(prompt, prompt.pipe)
        except ScriptEndError as error:
            raise BackendError(
                f"the script has no further reply for {prompt.pipe!r}", backend="scripted"
            ) from error
        match reply:
            case Exception():
                raise reply
            case Completion():
                return reply
            case str():
                return Completion(text=reply, model="scripted")
            case _:
                return Completion(text=json.dumps(reply, ensure_ascii=False), model="scripted")
