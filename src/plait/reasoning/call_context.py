"""What one call has at hand: the store, whoever answers, and a record of what was asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from pydantic import BaseModel

from plait._support.redact import Redactor
from plait.errors import PlaitError
from plait.reasoning.arguments import session_fault
from plait.reasoning.backends.pipes import PIPE_SETTINGS, PipeNames
from plait.reasoning.backends.port import Completer, OnProgress, Prompt
from plait.reasoning.backends.replies import ask_json
from plait.reasoning.backends.settings import GotLimits
from plait.reasoning.prompts import PROMPTS
from plait.reasoning.results import Shown
from plait.reasoning.storage.port import Storage
from plait.reasoning.values import Changes, Invocation, Session, now

ReplyT = TypeVar("ReplyT", bound=BaseModel)
ResultT_co = TypeVar("ResultT_co", bound=Shown, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[ResultT_co]):
    """What a call answers, and what is to be written before it does."""

    result: ResultT_co
    changes: Changes | None = None


async def _silent(_message: str) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The surroundings of one call; modes read the store and ask, and never write."""

    tool: str
    store: Storage
    completer: Completer
    limits: GotLimits = field(default_factory=GotLimits)
    pipes: PipeNames = field(default_factory=PipeNames)
    report: OnProgress = _silent
    invocations: list[Invocation] = field(default_factory=list[Invocation])
    """What models were asked during this call."""

    @property
    def hosted(self) -> bool:
        """Say whether the caller is the one who thinks."""
        return self.completer.name == "host"

    async def ask(
        self,
        mode: str,
        user: str,
        reply_type: type[ReplyT],
        *,
        session: Session | None = None,
        system: Callable[[str], str] = lambda text: text,
    ) -> ReplyT:
        """Ask the model of a mode for an object, and note that it was asked.

        Raises:
            BackendError, ReplyError: There is no usable answer.
        """
        settings = PIPE_SETTINGS[mode]
        prompt = Prompt(
            pipe=getattr(self.pipes, mode),
            system=system(PROMPTS[mode]),
            user=user,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
        )
        await self.report(f"asking {self.completer.name} ({prompt.pipe})")
        began = time.monotonic()
        note = Invocation(
            session_id=session.id if session else None,
            tool_name=self.tool,
            backend=self.completer.name,
            pipe_name=prompt.pipe,
            input={"user": user},
        )
        try:
            reply, completion = await ask_json(self.completer, prompt, reply_type)
        except PlaitError as error:
            self._note(note, began, success=False, error=Redactor().excerpt(str(error)))
            raise
        self._note(
            note,
            began,
            output=reply.model_dump(mode="json"),
            model=completion.model,
            input_tokens=completion.input_tokens,
            output_tokens=completion.output_tokens,
        )
        return reply

    def _note(self, note: Invocation, began: float, **facts: object) -> None:
        latency = round((time.monotonic() - began) * 1000)
        self.invocations.append(replace(note, latency_ms=latency, **facts))  # pyright: ignore[reportArgumentType]


async def session_for(work: Work, key: str | None, mode: str) -> Session:
    """Return the session of this id, or a new one; it must not be concluded."""
    if key is None:
        return Session(mode=mode)
    found = await work.store.get_session(key)
    return _still_open(found) if found else Session(id=key, mode=mode)


async def known_session(work: Work, key: str) -> Session:
    """Return a session that is there.

    Raises:
        RefusedError: There is none of this id.
    """
    found = await work.store.get_session(key)
    if found is None:
        raise session_fault(f"Session not found: {key}")
    return found


async def open_session(work: Work, key: str) -> Session:
    """Return a session that is there and not concluded."""
    return _still_open(await known_session(work, key))


def _still_open(session: Session) -> Session:
    if session.status == "concluded":
        raise session_fault(
            f"Session {session.id} is concluded; call reasoning_session_reopen to go on with it"
        )
    return session


def touched(session: Session) -> Session:
    """Return a session that changes now."""
    return replace(session, updated_at=now())
