"""A backend that says what a script tells it to, for tests; never chosen by itself."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeAlias, cast

from plait.errors import BackendError, ConfigError
from plait.reasoning.backends.port import Completion, Prompt

Reply: TypeAlias = str | Mapping[str, Any] | Completion | Exception
"""A text, an object to be said as JSON, a whole completion, or an error to raise."""

Script: TypeAlias = (
    Sequence[Reply] | Mapping[str, Reply | Sequence[Reply]] | Callable[[Prompt], Reply]
)
"""Replies in order; or by pipe, in order or always the same; or a function from the prompt."""


class ScriptedCompleter:
    """Follows a script, and remembers what it was asked.

    A list is used up reply by reply. In a mapping from pipe names, a list is used up too, and a
    single reply is given each time; `"*"` stands for every other pipe.
    """

    name = "scripted"

    def __init__(self, script: Script) -> None:
        self._answer = script if callable(script) else _answers(script)
        self.prompts: list[Prompt] = []
        """Every prompt, in the order in which they came."""

    @classmethod
    def from_file(cls, path: Path | str) -> Self:
        """Read a script from a JSON file: an array of replies, or an object of them by pipe.

        Raises:
            ConfigError: The file cannot be read, or holds something else.
        """
        try:
            script: object = json.loads(Path(path).read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigError(
                f"{path}: the script cannot be read: {type(error).__name__}"
            ) from error
        return cls(_checked(path, script))

    def describe(self) -> str:
        """Say that no model answers."""
        return "scripted replies, no model"

    async def open(self) -> None:
        """Do nothing."""

    async def complete(self, prompt: Prompt) -> Completion:
        """Give the next reply of the script.

        Raises:
            BackendError: The script is at its end, or says nothing about this pipe.
        """
        self.prompts.append(prompt)
        reply = self._answer(prompt)
        match reply:
            case Exception():
                raise reply
            case Completion():
                return reply
            case str():
                return Completion(text=reply, model="scripted")
            case _:
                return Completion(text=json.dumps(reply, ensure_ascii=False), model="scripted")

    async def aclose(self) -> None:
        """Do nothing."""


def _answers(
    script: Sequence[Reply] | Mapping[str, Reply | Sequence[Reply]],
) -> Callable[[Prompt], Reply]:
    if isinstance(script, Mapping):
        lines = {pipe: _line(replies) for pipe, replies in script.items()}
    else:
        lines = {"*": _line(script)}

    def answer(prompt: Prompt) -> Reply:
        for reply in lines.get(prompt.pipe, lines.get("*", ())):
            return reply
        raise BackendError(
            f"the script has no further reply for {prompt.pipe!r}", backend="scripted"
        )

    return answer


def _line(replies: Reply | Sequence[Reply]) -> Iterator[Reply]:
    match replies:
        case str() | Mapping() | Completion() | Exception():
            return itertools.repeat(replies)
        case _:
            return iter(list(replies))


def _checked(path: Path | str, script: object) -> Script:
    """Take from a file what a script may hold."""
    match script:
        case list() if all(_is_reply(reply) for reply in cast("list[object]", script)):
            return cast("Script", script)
        case dict() if all(
            all(_is_reply(one) for one in cast("list[object]", reply))
            if isinstance(reply, list)
            else _is_reply(reply)
            for reply in cast("dict[str, object]", script).values()
        ):
            return cast("Script", script)
        case _:
            raise ConfigError(
                f"{path}: a script is an array of replies, or an object of them by pipe; "
                "a reply is a text or an object"
            )


def _is_reply(value: object) -> bool:
    return isinstance(value, (str, dict))
