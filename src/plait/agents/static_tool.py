"""Tools that a program gives to an agent itself, beside those of servers."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class StaticTool:
    """A tool of the program; one without a function can be asked for, but not used."""

    name: str

    description: str = ""

    input_schema: Mapping[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )

    function: Callable[..., Awaitable[Any] | Any] | None = None
    """Gets the arguments by name, and returns what the model shall read."""

    async def call(self, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Run the function; returns a text for the model, and whether it is an error."""
        if self.function is None:
            return f"{self.name} cannot be called: it was given to the agent as a name only", True
        try:
            answer = self.function(**arguments)
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:  # noqa: BLE001  # boundary: the model reads what went wrong
            return f"{self.name} failed: {type(error).__name__}: {error}", True
        return answer if isinstance(answer, str) else str(answer), False
