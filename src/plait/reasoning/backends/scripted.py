"""A backend that returns the replies of a script, for tests; used only when it is configured."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias

from pydantic import TypeAdapter, ValidationError

from plait.errors import BackendError, ConfigError
from plait.models.scripts import ScriptEndError, ScriptPlayer, load_script
from plait.reasoning.backends.port import Completer, Completion, Prompt

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
