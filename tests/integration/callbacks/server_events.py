"""Servers that announce things: two transports, two protocol eras, and a way to kill each."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from plait import CallbackContext, Toolbox
from plait.client import ServerInfo
from tests.nursery import fault_server, send_signal, stdio_config

LEGACY = frozenset({"stdio legacy", "http legacy"})
KINDS = ("stdio legacy", "stdio modern", "http legacy", "http modern")


@dataclass(frozen=True)
class NotifyingServer:
    """A server under test, called `server` in every client."""

    config: dict[str, Any]
    kill: Callable[[Toolbox], object]
    """Kill it with -9; bring it back if nobody else will."""


@contextmanager
def notifying_server(kind: str) -> Generator[NotifyingServer]:
    """Start a server, or say how it is started."""
    era: dict[str, Any] = {"legacy_only": True} if kind in LEGACY else {"modern_only": True}
    if kind.startswith("stdio"):
        yield NotifyingServer(stdio_config(**era), killed)
        return
    with fault_server("http", **era) as server:
        yield NotifyingServer({"url": server.url}, lambda _: server.restart())


def killed(box: Toolbox) -> None:
    """Kill the server program of a toolbox."""
    pid = box.status()["server"].pid
    assert pid is not None
    send_signal(pid, signal.SIGKILL)


@dataclass
class Notebook:
    """Writes down what it is told, by callback."""

    told: list[tuple[str, Any, CallbackContext]] = field(default_factory=list[Any])

    def on(self, name: str) -> Callable[[Any, CallbackContext], None]:
        """Make a callback."""
        return lambda params, context: self.told.append((name, params, context))

    def names(self) -> list[str]:
        """Return which callbacks were called, in order."""
        return [name for name, _, _ in self.told]

    def params(self, name: str) -> list[Any]:
        """Return what a callback was called with."""
        return [params for told, params, _ in self.told if told == name]

    def facts(self) -> list[ServerInfo]:
        """Return what was told of new sessions."""
        return self.params("on_initialized")
