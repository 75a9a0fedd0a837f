"""One seam for observing: logs, spans and traces are listeners."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTool:
    """One attempt at one tool call."""

    server: str
    tool: str
    attempt: int


Operation = CallTool
"""Anything that can be observed."""


class Observer(Protocol):
    """Sees an operation start and end; an exception that ends it passes through."""

    def around(self, operation: Operation) -> AbstractContextManager[None]:
        """Return what wraps the operation."""
        ...


def observe(observers: Sequence[Observer], operation: Operation) -> AbstractContextManager[None]:
    """Return what runs a block under every observer, the first one outermost."""
    if not observers:
        return nullcontext()
    if len(observers) == 1:
        return observers[0].around(operation)
    return _under_all(observers, operation)


@contextmanager
def _under_all(observers: Sequence[Observer], operation: Operation) -> Generator[None]:
    with ExitStack() as stack:
        for observer in observers:
            stack.enter_context(observer.around(operation))
        yield
