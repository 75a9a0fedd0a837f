"""What servers say and ask during calls, brought to those who made the calls."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import Any, cast

from mcp.client import ClientRequestContext, ClientSession
from mcp.client.session import ElicitationFnT
from mcp_types import ElicitRequestParams, ElicitResult, ErrorData
from mcp_types import LoggingMessageNotificationParams as LogMessage

from plait.client.calls.call import ToolCall
from plait.client.calls.sampling import Asked, Sampled
from plait.client.connections.deadline import Deadline
from plait.client.connections.loop_bridge import Handover

_LONGEST_ANSWER_SECONDS = 600.0
"""How long somebody may take to answer a question."""

Sample = Callable[[str, Asked], Coroutine[Any, Any, Sampled | ErrorData]]
"""Asks the model for a server."""


@dataclass(slots=True)
class Tally:
    """What a server has had during one call."""

    sampled: int = 0
    """How often it has used the model."""


logger = logging.getLogger("plait.client.calls")


@dataclass(slots=True, eq=False)
class Listener:
    """A call under way, and what its caller wants to hear."""

    server: str
    tool: str
    tell: Callable[[LogMessage], None] | None = None
    ask: ElicitationFnT | None = None
    sample: Sample | None = None
    tally: Tally = field(default_factory=Tally)
    pausing: bool = False
    """Whether the caller is paused by a question, so that it must not get the answer of another."""
    session: ClientSession | None = None
    deadline: Deadline | None = None
    waits: bool = False
    """Whether a question of this call is being answered."""

    @classmethod
    def of(cls, call: ToolCall, handover: Handover, sample: Sample | None = None) -> Listener:
        """Make one where the caller is; `sample` asks the model, if servers may use it."""
        return cls(
            call.server,
            call.tool,
            call.on_log and handover.returning(call.on_log),
            call.on_question and cast("ElicitationFnT", handover.asking(call.on_question)),
            sample and handover.asking(sample),
        )


_current: ContextVar[Listener | None] = ContextVar("plait_listener", default=None)


class Talk:
    """Knows the calls under way; lives in the loop that owns the connections."""

    def __init__(self) -> None:
        self._now: list[Listener] = []
        self._changed = asyncio.Event()
        self._unclear: Counter[ClientSession] = Counter()
        """Questions of which it is not known yet to which call they belong."""
        self._wanted: dict[asyncio.Future[Any], set[Listener]] = {}
        """Answers that are being made, and the calls that may want them."""

    def heard_by(
        self, listener: Listener, session: ClientSession, deadline: Deadline | None = None
    ) -> AbstractContextManager[None]:
        """Let the listener hear what is said on the session during the block.

        The deadline stands still while the listener answers a question.
        """
        listener.session, listener.deadline = session, deadline
        return _Listening(listener, self._now, self._ended)

    def logged(self, server: str, message: LogMessage) -> bool:
        """Hand a log message to the call it belongs to; say no if that cannot be told."""
        listener = _current.get()
        if listener is None or listener.server != server:
            listening = [one for one in self._now if one.server == server and one.tell is not None]
            listener = listening[0] if len({one.tool for one in listening}) == 1 else None
        if listener is None or listener.tell is None:
            return False
        listener.tell(message)
        return True

    async def answer(
        self, context: ClientRequestContext, params: ElicitRequestParams, otherwise: ElicitationFnT
    ) -> ElicitResult | ErrorData:
        """Have a question answered by whoever made the call it belongs to."""
        listener = _current.get() or await self._asking(context.session)
        if listener is None or listener.ask is None:
            return await otherwise(context, params)
        listener.waits = True
        clock = listener.deadline.held() if listener.deadline else contextlib.nullcontext()
        try:
            with clock:
                async with asyncio.timeout(None if listener.pausing else _LONGEST_ANSWER_SECONDS):
                    return await listener.ask(context, params)
        except TimeoutError:
            logger.warning("%s/%s: nobody answered in time", listener.server, listener.tool)
            return ElicitResult(action="cancel")
        finally:
            listener.waits = False
            self._notify()

    async def _asking(self, session: ClientSession) -> Listener | None:
        """Find the call that a server of the handshake era asks for: it does not say.

        Where it could be one of several, those that end without an answer did not ask.
        """
        self._unclear[session] += 1
        try:
            while True:
                here = [one for one in self._now if one.session is session]
                running = [one for one in here if not one.waits] or here
                if len(running) <= 1:
                    return running[0] if running else None
                if not any(one.pausing for one in here):
                    listening = [one for one in running if one.ask is not None]
                    same = len({one.tool for one in listening}) == 1
                    return listening[0] if same else None
                if self._unclear[session] >= len(running):
                    logger.warning(
                        "%s asks the user something, and it cannot be told which of %d calls "
                        "it is for; the question is declined",
                        running[0].server,
                        len(running),
                    )
                    return None
                await self._changed.wait()
        finally:
            self._unclear[session] -= 1
            if not self._unclear[session]:
                del self._unclear[session]

    def _notify(self) -> None:
        if self._unclear:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def calls(self, server: str) -> list[Listener]:
        """Return the calls that a server may speak of: the one it must be, or all of them."""
        current = _current.get()
        if current is not None and current.server == server:
            return [current]
        return [listener for listener in self._now if listener.server == server]

    @contextlib.contextmanager
    def cancelled_after(
        self, calls: Sequence[Listener], answer: asyncio.Future[Any]
    ) -> Generator[None]:
        """Cancel an answer that is being made when the last call that may want it has ended."""
        if calls:
            self._wanted[answer] = set(calls)
        try:
            yield
        finally:
            self._wanted.pop(answer, None)

    def _ended(self, listener: Listener) -> None:
        self._notify()
        for answer, calls in list(self._wanted.items()):
            calls.discard(listener)
            if not calls:
                answer.cancel()


class _Listening(AbstractContextManager[None]):
    """A call during which its listener hears; a class, since every call has one."""

    __slots__ = ("_ended", "_listener", "_now", "_token")

    def __init__(
        self, listener: Listener, now: list[Listener], ended: Callable[[Listener], None]
    ) -> None:
        self._listener = listener
        self._now = now
        self._ended = ended
        self._token: Token[Listener | None] | None = None

    def __enter__(self) -> None:
        self._now.append(self._listener)
        self._token = _current.set(self._listener)

    def __exit__(self, *_error: object) -> None:
        if self._token is not None:
            _current.reset(self._token)
        self._now.remove(self._listener)
        self._ended(self._listener)
