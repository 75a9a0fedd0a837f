"""The context of one tool call: the store, the completer, and the requests that were sent."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel

from plait._support.redact import Redactor
from plait.errors import BranchNotFoundError, PlaitError, SessionNotFoundError
from plait.reasoning.arguments import input_needed, session_error, unknown_id
from plait.reasoning.backends.ask_json import ask_json
from plait.reasoning.backends.langbase import PIPE_SETTINGS, PipeNames
from plait.reasoning.backends.port import Completer, OnProgress, Prompt, fields
from plait.reasoning.backends.settings import GotLimits
from plait.reasoning.prompts import BUDGET_TOKENS, PROMPTS, truncated
from plait.reasoning.results import ResultPart
from plait.reasoning.storage.port import Storage
from plait.reasoning.values import Branch, Changes, Invocation, Session, new_id, now

logger = logging.getLogger(__name__)

ReplyT = TypeVar("ReplyT", bound=BaseModel)
ResultT_co = TypeVar("ResultT_co", bound=ResultPart, covariant=True)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[ResultT_co]):
    """The result of a call, and the changes to write before it is returned."""

    result: ResultT_co
    changes: Changes | None = None


async def ignore(_text: str) -> None:
    """Do nothing with a text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The context of one call; modes read the store and send prompts, but never write.

    Methods raise `RefusedError` for what the caller can correct.
    """

    tool: str
    store: Storage
    completer: Completer
    limits: GotLimits = field(default_factory=GotLimits)
    pipes: PipeNames = field(default_factory=PipeNames)
    report: OnProgress = ignore
    include_snapshots: bool = True
    """Whether results show the states of checkpoints unless a call says otherwise."""
    is_compact: bool = False
    """Whether the compact profile calls: new sessions have short ids, steps say where they are."""
    invocations: list[Invocation] = field(default_factory=list[Invocation])
    """The requests that this call sent to models."""

    @property
    def is_host(self) -> bool:
        """Whether there is no model and the caller writes the thoughts."""
        return self.completer.name == "host"

    def shows_snapshot(self, requested: bool | None) -> bool:
        """Return whether the result shows the state of a checkpoint."""
        return self.include_snapshots if requested is None else requested

    async def ask(
        self,
        mode: str,
        user: str,
        reply_type: type[ReplyT],
        *,
        own: Mapping[str, Any] | None = None,
        session: Session | None = None,
        system: str | None = None,
        parameter: str | None = None,
        shape: str = "",
    ) -> ReplyT:
        """Ask the model of a mode for a JSON object, and record the request.

        `own` is the reply of the caller; with it, no model is asked. `system` replaces the prompt
        of the mode. Without a model, the error asks the caller for `parameter` in this `shape`.
        """
        if own is not None:
            return reply_type.model_validate(own)
        if self.is_host and parameter is not None:
            raise input_needed(parameter, shape)
        user = await self._question(session, user) + user
        prompt = Prompt(
            pipe=getattr(self.pipes, mode),
            system=system or PROMPTS[mode],
            user=user,
            **asdict(PIPE_SETTINGS[mode]),
        )
        await self.report(f"asking {self.completer.name} ({prompt.pipe})")
        started = time.monotonic()
        invocation = Invocation(
            session_id=session.id if session else None,
            tool_name=self.tool,
            backend=self.completer.name,
            pipe_name=prompt.pipe,
            input={"user": user},
        )
        try:
            reply, completion = await ask_json(self.completer, prompt, reply_type)
        except PlaitError as error:
            text = Redactor().excerpt(str(error))
            self._record(replace(invocation, success=False, error=text), started)
            raise
        invocation = replace(
            invocation,
            output=reply.model_dump(mode="json"),
            model=completion.model,
            input_tokens=completion.input_tokens,
            output_tokens=completion.output_tokens,
        )
        self._record(invocation, started)
        facts: dict[str, object] = {
            "tool": self.tool,
            "backend": self.completer.name,
            "pipe": prompt.pipe,
            "model": completion.model,
            "ms": self.invocations[-1].latency_ms,
            "input_tokens": completion.input_tokens,
            "output_tokens": completion.output_tokens,
        }
        logger.info("%(tool)s: %(backend)s answered in %(ms)d ms", facts, extra=fields(facts))
        return reply

    async def _question(self, session: Session | None, user: str) -> str:
        """Return what a prompt says of the question that began a session with a model.

        The first thought is the model's own, which need not repeat what it is about.
        """
        first = await self.store.get_first_thought(session.id) if session else None
        question = str((first.metadata or {}).get("question") or "") if first else ""
        if not question or question in user:
            return ""
        return f"Question:\n{truncated(question, BUDGET_TOKENS // 4)}\n\n"

    def _record(self, invocation: Invocation, started: float) -> None:
        latency = round((time.monotonic() - started) * 1000)
        self.invocations.append(replace(invocation, latency_ms=latency))

    async def new_or_open_session(self, key: str | None, mode: str) -> Session:
        """Return the session with this id, which must not be concluded, or a new one."""
        if key is None:
            return Session(id=self.new_session_id(), mode=mode)
        session = await self.store.get_session(key)
        return _not_concluded(session) if session else Session(id=key, mode=mode)

    def new_session_id(self) -> str:
        """Return the id of a new session; one that is taken already is a conflict."""
        return secrets.token_hex(4) if self.is_compact else new_id()

    async def existing_session(self, key: str) -> Session:
        """Return the session with this id, which must exist."""
        session = await self.store.get_session(key)
        if session is None:
            raise unknown_id(SessionNotFoundError, f"Session not found: {key}", key)
        return session

    async def open_session(self, key: str) -> Session:
        """Return the session with this id, which must exist and not be concluded."""
        return _not_concluded(await self.existing_session(key))

    async def branch_of(self, session: Session, key: str) -> Branch:
        """Return the branch with this id, which must belong to the session."""
        branch = await self.store.get_branch(key)
        if branch is None:
            raise unknown_id(BranchNotFoundError, f"Branch not found: {key}", key)
        if branch.session_id != session.id:
            raise unknown_id(BranchNotFoundError, "Branch does not belong to this session", key)
        return branch


class Run(Protocol):
    """The function of a tool."""

    __name__: str

    def __call__(self, params: Any, call: CallContext, /) -> Awaitable[Outcome[ResultPart]]:
        """Run the tool."""
        ...


def _not_concluded(session: Session) -> Session:
    if session.status == "concluded":
        raise session_error(
            f"Session {session.id} is concluded; call reasoning_session_reopen to go on with it"
        )
    return session


def touched(session: Session) -> Session:
    """Return a session with the current time as its last change."""
    return replace(session, updated_at=now())
