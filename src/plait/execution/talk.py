"""What servers say and ask during calls, brought to those who made the calls."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import cast

from mcp.client.session import ElicitationFnT
from mcp_types import LoggingMessageNotificationParams as LogMessage

from plait.connections.handover import Handover
from plait.execution.call import ToolCall


@dataclass(frozen=True, slots=True, eq=False)
class Listener:
    """A call under way, and what its caller wants to hear."""

    server: str
    tool: str
    tell: Callable[[LogMessage], None] | None = None
    ask: ElicitationFnT | None = None

    @classmethod
    def of(cls, call: ToolCall, handover: Handover) -> Listener | None:
        """Make one where the caller is, or `None` if nobody listens."""
        if call.on_log is None and call.on_question is None:
            return None
        return cls(
            call.server,
            call.tool,
            call.on_log and handover.returning(call.on_log),
            call.on_question and cast("ElicitationFnT", handover.asking(call.on_question)),
        )


_current: ContextVar[Listener | None] = ContextVar("plait_listener", default=None)


class Talk:
    """Knows the calls under way; lives in the loop that owns the connections."""

    def __init__(self) -> None:
        self._now: list[Listener] = []

    @contextlib.contextmanager
    def heard_by(self, listener: Listener | None) -> Generator[None]:
        """Let the listener hear what is said during the block."""
        if listener is None:
            yield
            return
        self._now.append(listener)
        token = _current.set(listener)
        try:
            yield
        finally:
            _current.reset(token)
            self._now.remove(listener)

    def logged(self, server: str, message: LogMessage) -> bool:
        """Hand a log message to the call it belongs to; say no if that cannot be told."""
        listener = self._listener(server)
        if listener is None or listener.tell is None:
            return False
        listener.tell(message)
        return True

    def answers(self, server: str) -> ElicitationFnT | None:
        """Return who answers a question of a server, if it can be told which call it belongs to."""
        listener = self._listener(server)
        return None if listener is None else listener.ask

    def _listener(self, server: str) -> Listener | None:
        """Find the call that the server speaks of: modern servers speak within their answer."""
        current = _current.get()
        if current is not None and current.server == server:
            return current
        here = [listener for listener in self._now if listener.server == server]
        return here[0] if len({listener.tool for listener in here}) == 1 else None
