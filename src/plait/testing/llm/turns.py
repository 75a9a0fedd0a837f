"""The turns of a stand-in: answer, refuse, send garbage, hang, or cut the connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from plait.models.scripts import Say


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Answer with an HTTP error status."""

    status: int
    message: str = "refused by the script"
    retry_after: str | None = None
    param: str | None = None
    """The rejected parameter, where the API reports it."""
    details: Mapping[str, Any] | None = None
    """Machine-readable details, where the API has them."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Answer with this body, unchanged."""

    body: str
    status: int = 200
    media_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Hang:
    """Never answer; wait until the client disconnects."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Cut the connection without an answer, or a stream in the middle."""

    after: int | None = None
    """How many events of a stream are sent; `None` cuts before any answer."""
    say: str | Say = "this text does not come to its end"
    """The turn that is cut."""
    quiet: bool = True
    """Whether the stream ends as if it were complete; otherwise the connection breaks."""
    error: str | None = None
    """The type of an error that the stream ends with, such as `overloaded_error`."""
    stalls: bool = False
    """Whether nothing more comes, until the client disconnects, instead of an end."""


Turn: TypeAlias = "str | Say | Mapping[str, Any] | Refuse | Raw | Hang | Cut"
"""A text, an object to return as JSON, a text with tool calls, or a fault."""

Script: TypeAlias = "Sequence[Turn] | Callable[[Mapping[str, Any]], Turn]"
"""Turns in order, or a function of the request body."""
