"""What a stand-in does when its model is asked: answer, refuse, talk nonsense, hang or hang up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from plait.models.scripts import Say


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Answer with an HTTP status that is no success."""

    status: int

    message: str = "refused by the script"

    retry_after: str | None = None

    param: str | None = None
    """The setting that is refused, where the API says so."""

    details: Mapping[str, Any] | None = None
    """More facts for programs, where the API gives some."""


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
    """Cut the connection without an answer, or a stream in the middle."""

    after: int | None = None
    """The events of a stream that come through; an answer that is no stream never comes."""

    say: str | Say = "this text does not come to its end"
    """What the model would say."""

    quiet: bool = True
    """Whether a stream ends as if it were complete; otherwise the connection breaks."""


Turn: TypeAlias = "str | Say | Mapping[str, Any] | Refuse | Raw | Hang | Cut"
"""A text to say, an object to say as JSON, a text with calls of tools, or a fault."""

Script: TypeAlias = "Sequence[Turn] | Callable[[Mapping[str, Any]], Turn]"
"""Turns in order, or a function from the body of the request."""

Think: TypeAlias = "Callable[[Mapping[str, Any]], Turn]"
"""What takes the turn that answers the body of a request."""


def turns_of(script: Script | None, otherwise: Think) -> Think:
    """Return what takes the next turn; without a script that is `otherwise`."""
    if script is None:
        return otherwise
    if callable(script):
        return script
    turns: Iterator[Turn] = iter(list(script))
    # Not a status that clients try again.
    return lambda _: next(turns, Refuse(status=410, message="the script is at its end"))
