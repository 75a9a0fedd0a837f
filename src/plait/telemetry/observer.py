"""The observer protocol, which logs, spans and traces implement."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTool:
    """One attempt of a tool call."""

    server: str
    tool: str
    attempt: int

    @property
    def method(self) -> str:
        """The method of the request."""
        return "tools/call"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """One attempt of a request that changes nothing: a list, a resource, a prompt."""

    server: str
    method: str
    attempt: int


Operation = CallTool | ReadRequest
"""Anything that can be observed."""


class Observer(Protocol):
    """Observes the start and end of operations; exceptions pass through.

    A call that the tool itself reports as failed ends with a `ToolFailedError`, for observers only.
    """

    def around(self, operation: Operation) -> AbstractContextManager[None]:
        """Return a context manager for the operation."""
        ...


def observe(observers: Sequence[Observer], operation: Operation) -> AbstractContextManager[None]:
    """Return a context manager of all observers, the first one outermost."""
    if len(observers) == 1:
        return observers[0].around(operation)

    @contextmanager
    def all_around() -> Generator[None]:
        with ExitStack() as stack:
            for observer in observers:
                stack.enter_context(observer.around(operation))
            yield

    return all_around() if observers else nullcontext()
