"""Ask several servers the same thing, and keep what each one answered or why it did not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from plait.cli.terminal import print_aside
from plait.errors import PlaitError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """What several servers answered."""

    found: Mapping[str, T]
    """By server, in the order of the configuration."""

    failed: Mapping[str, PlaitError]


async def ask_each(servers: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> Answers[T]:
    """Ask every server at the same time; one that fails does not disturb the others."""
    names = list(servers)
    found: dict[str, T] = {}
    failed: dict[str, PlaitError] = {}

    async def ask_one(name: str) -> None:
        try:
            found[name] = await ask(name)
        except PlaitError as error:
            failed[name] = error

    await asyncio.gather(*(ask_one(name) for name in names))
    return Answers(
        {name: found[name] for name in names if name in found},
        {name: failed[name] for name in names if name in failed},
    )


def warn_about(failed: Mapping[str, PlaitError]) -> None:
    """Say on stderr which servers are missing from a result, and why."""
    for name, error in failed.items():
        print_aside("warning", reason_for(name, error), colour="yellow")


def reason_for(server: str, error: PlaitError) -> str:
    """Say in one line, which names the server, why it does not answer."""
    reason = " ".join(str(error).split())
    return reason if reason.startswith(f"{server}:") else f"{server}: {reason}"
