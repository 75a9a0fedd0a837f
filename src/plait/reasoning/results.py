"""The results of tools, as text and as structured content."""

from __future__ import annotations

import json
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field

from plait.reasoning.fields import Adjustment


class ResultPart(BaseModel):
    """A part of a result."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def of(cls, source: object, **fields: Any) -> Self:
        """Return a part with these fields, and with the others from the attributes of a source."""
        same = {name for name in cls.model_fields if name not in fields and hasattr(source, name)}
        return cls(**fields, **{name: getattr(source, name) for name in same})


def unless_none(description: str | None = None) -> Any:
    """Describe a field of a result that is left out when it is `None`."""
    return Field(default=None, description=description, exclude_if=lambda value: value is None)


class Move(ResultPart):
    """A call that would make sense next."""

    tool: str
    arguments: dict[str, Any] = Field(description="Arguments to start from.")
    why: str
    supply: list[str] | None = unless_none("Arguments that you have to add.")


def move(tool: str, why: str, session_id: str | None = None, /, **arguments: Any) -> Move:
    """Suggest a call of a tool, which is named without `reasoning_`."""
    if session_id is not None:
        arguments = {"session_id": session_id, **arguments}
    return Move(tool=f"reasoning_{tool}", arguments=arguments, why=why)


class Result(ResultPart):
    """What an object result always has."""

    backend: str = Field(default="", description="Who wrote the thoughts.")
    next: list[Move] = Field(default_factory=list[Move], description="Moves that make sense now.")
    adjusted: dict[str, Adjustment] | None = unless_none(
        "Arguments that were brought into their range."
    )


class SessionResult(Result):
    """A result about a session."""

    session_id: str


class ListResult(ResultPart):
    """A result that is an array as text, and an object around it as structured content."""

    def items(self) -> list[Any]:
        """Return the array."""
        (name,) = type(self).model_fields
        return result_data(self)[name]


def result_data(result: ResultPart) -> dict[str, Any]:
    """Return a result as plain data."""
    data = result.model_dump(mode="json")
    # Fields that every result has come last.
    return {name: data[name] for name in sorted(data, key=lambda name: name in Result.model_fields)}


def result_text(result: ResultPart) -> str:
    """Return a result as the text that a model reads."""
    data = result.items() if isinstance(result, ListResult) else result_data(result)
    return json.dumps(data, indent=2, ensure_ascii=False)
