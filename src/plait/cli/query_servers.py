"""Send the same query to several servers, and keep each result or error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from plait.cli.terminal import print_aside
from plait.errors import PlaitError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServerResults(Generic[T]):
    """Results and errors by server, in the order of the configuration."""

    results: Mapping[str, T]
    errors: Mapping[str, PlaitError]


async def query_each(
    servers: Iterable[str], query: Callable[[str], Awaitable[T]]
) -> ServerResults[T]:
    """Query all servers concurrently; the failure of one does not affect the others."""
    names = list(servers)
    results: dict[str, T] = {}
    errors: dict[str, PlaitError] = {}

    async def query_one(name: str) -> None:
        try:
            results[name] = await query(name)
        except PlaitError as error:
            errors[name] = error

    await asyncio.gather(*(query_one(name) for name in names))
    return ServerResults(
        {name: results[name] for name in names if name in results},
        {name: errors[name] for name in names if name in errors},
    )


def print_errors(errors: Mapping[str, PlaitError]) -> None:
    """Print on stderr which servers are missing from a result, and why."""
    for name, error in errors.items():
        print_aside("warning", error_line(name, error), colour="yellow")


def error_line(server: str, error: PlaitError) -> str:
    """Fold an error to one line that names the server."""
    reason = " ".join(str(error).split())
    return reason if reason.startswith(f"{server}:") else f"{server}: {reason}"
