"""What a tool of the server is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from plait.reasoning.arguments import Params
from plait.reasoning.call_context import Outcome, Work
from plait.reasoning.results import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool: what it takes, gives and does, and how it behaves."""

    name: str
    title: str
    description: str
    params: type[Params]
    result: type[Shown]
    run: Callable[[Any, Work], Awaitable[Outcome[Shown]]]

    asks: bool = False
    """Whether it may ask a model."""
    reads: bool = False
    """Whether it changes nothing."""
    destroys: bool = False
    """Whether something is gone afterwards."""
    repeatable: bool = False
    """Whether a second call with the same arguments changes nothing more."""
