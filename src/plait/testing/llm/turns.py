"""What a stand-in does when its model is asked: answer, refuse, talk nonsense, hang or hang up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Answer with an HTTP status that is no success."""

    status: int

    message: str = "refused by the script"

    retry_after: str | None = None

    param: str | None = None
    """The setting that is refused, where the API says so."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Answer with a body as it stands, whatever it is."""

    body: str

    status: int = 200


@dataclass(frozen=True, slots=True)
class Hang:
    """Never answer; wait until the client gives up."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Cut the connection without an answer."""


Turn: TypeAlias = "str | Mapping[str, Any] | Refuse | Raw | Hang | Cut"
"""A text to say, an object to say as JSON, or a fault."""

Script: TypeAlias = "Sequence[Turn] | Callable[[Mapping[str, Any]], Turn]"
"""Turns in order, or a function from the body of the request."""


def turns_of(script: Script | None) -> Callable[[Mapping[str, Any]], Turn]:
    """Return what takes the next turn; without a script, the last message is repeated."""
    if script is None:
        return _echo
    if callable(script):
        return script
    turns: Iterator[Turn] = iter(list(script))
    # Not a status that clients try again.
    return lambda _: next(turns, Refuse(status=410, message="the script is at its end"))


def _echo(body: Mapping[str, Any]) -> Turn:
    return f"echo: {body['messages'][-1]['content']}"
