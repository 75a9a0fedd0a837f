"""The context of one tool call: the store, the completer, and the requests that were sent."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar, cast

from plait._support.redact import Redactor
from plait.errors import (
    BranchNotFoundError,
    PlaitError,
    RefusedError,
    SessionNotFoundError,
    ThoughtNotFoundError,
)
from plait.reasoning.arguments import session_error, unknown_id
from plait.reasoning.backends.ask_json import ReplyT, ask_json
from plait.reasoning.backends.http import PIPE_SETTINGS, PipeNames
from plait.reasoning.backends.port import Completer, OnProgress, Prompt, fields
from plait.reasoning.backends.settings import GotLimits
from plait.reasoning.fields import Params
from plait.reasoning.prompts import (
    BUDGET_TOKENS,
    MAX_PROMPT_THOUGHTS,
    PROMPTS,
    as_lines,
    truncated,
    within_budget,
)
from plait.reasoning.results import ResultPart
from plait.reasoning.storage.port import Storage
from plait.reasoning.values import Branch, Changes, Invocation, Session, Thought, new_id, now

logger = logging.getLogger(__name__)

MAX_PROMPT_OTHERS = 5
"""How many thoughts of other branches a prompt shows."""

ResultT_co = TypeVar("ResultT_co", bound=ResultPart, covariant=True)


@dataclass(frozen=True, slots=True)
class Outcome(Generic[ResultT_co]):
    """The result of a call, and the changes to write before it is returned."""

    result: ResultT_co
    changes: Changes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a session; thoughts that are added there follow `tip`."""

    branch: Branch | None = None
    tip: Thought | None = None

    @property
    def branch_id(self) -> str | None:
        """The id of the branch."""
        return self.branch.id if self.branch else None

    @property
    def tip_id(self) -> str | None:
        """The id of the last thought on the path."""
        return self.tip.id if self.tip else None


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
    replies: dict[tuple[str, str, str], tuple[Params, Invocation]] = field(
        default_factory=dict[tuple[str, str, str], tuple[Params, Invocation]]
    )
    """The replies to prompts: each is sent once, however often the call is repeated."""

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
        session: Session | None = None,
        system: str | None = None,
        parameter: str | None = None,
        shape: str = "",
        **settings: Any,
    ) -> ReplyT:
        """Ask the model of a mode for a JSON object, and record the request.

        `system` replaces the prompt of the mode, `settings` its temperature or its tokens. Without
        a model, the error asks the caller for `parameter` in this `shape`.
        """
        if self.is_host and parameter is not None:
            raise RefusedError(
                f"Input needed: {parameter} - No model is connected (backend: host), so you write "
                "this part yourself. Call again with the same arguments and "
                f"{parameter}={shape}"
            )
        # The first thought of a session is the model's own, which need not repeat the question.
        first = await self.store.get_first_thought(session.id) if session else None
        question = str((first.metadata or {}).get("question") or "") if first else ""
        if question and question not in user:
            user = f"Question:\n{truncated(question, BUDGET_TOKENS // 4)}\n\n{user}"
        prompt = Prompt(
            pipe=getattr(self.pipes, mode),
            system=system or PROMPTS[mode],
            user=user,
            **asdict(replace(PIPE_SETTINGS[mode], **settings)),
        )
        key = (prompt.pipe, prompt.system, prompt.user)
        if key in self.replies:
            reply, invocation = self.replies[key]
            self.invocations.append(invocation)
            return cast("ReplyT", reply)
        name = self.completer.name
        await self.report(f"asking {name} ({prompt.pipe})")
        invocation = Invocation(
            session_id=session.id if session else None,
            tool_name=self.tool,
            backend=name,
            pipe_name=prompt.pipe,
            input={"user": user},
        )
        started = time.monotonic()
        try:
            reply, completion = await ask_json(self.completer, prompt, reply_type)
        except PlaitError as error:
            text = Redactor().excerpt(str(error))
            latency = round((time.monotonic() - started) * 1000)
            failed = replace(invocation, success=False, error=text, latency_ms=latency)
            self.invocations.append(failed)
            raise
        latency = round((time.monotonic() - started) * 1000)
        tokens = {
            "model": completion.model,
            "input_tokens": completion.input_tokens,
            "output_tokens": completion.output_tokens,
        }
        output = reply.model_dump(mode="json")
        invocation = replace(invocation, output=output, latency_ms=latency, **tokens)
        self.invocations.append(invocation)
        self.replies[key] = reply, invocation
        facts = {"tool": self.tool, "backend": name, "pipe": prompt.pipe, "ms": latency, **tokens}
        logger.info("%(tool)s: %(backend)s answered in %(ms)d ms", facts, extra=fields(facts))
        return reply

    async def new_or_open_session(self, key: str | None, mode: str) -> Session:
        """Return the session with this id, which must not be concluded, or a new one."""
        session = await self.store.get_session(key) if key is not None else None
        if session is None:
            return Session(id=key or self.new_session_id(), mode=mode)
        return _not_concluded(session)

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

    async def existing_branch(self, key: str) -> Branch:
        """Return the branch with this id, which must exist."""
        branch = await self.store.get_branch(key)
        if branch is None:
            raise unknown_id(BranchNotFoundError, f"Branch not found: {key}", key)
        return branch

    async def branch_of(self, session: Session, key: str) -> Branch:
        """Return the branch with this id, which must belong to the session."""
        branch = await self.existing_branch(key)
        if branch.session_id != session.id:
            raise unknown_id(BranchNotFoundError, "Branch does not belong to this session", key)
        return branch

    async def thought_of(self, session: Session, key: str, field: str) -> Thought:
        """Return the thought with this id, which must belong to the session."""
        thought = await self.store.get_thought(key)
        if thought is None or thought.session_id != session.id:
            text = f"Thought not found in this session: {key}"
            raise unknown_id(ThoughtNotFoundError, text, key, field)
        return thought

    async def place(self, session: Session, branch_id: str | None) -> Place:
        """Return the end of a branch of the session.

        Without an id it is the active branch, or the nearest one above it that is not ended.
        """
        if branch_id is not None:
            return await self.place_on(session, await self.branch_of(session, branch_id))
        branch = await self._branch(session.active_branch_id)
        while branch is not None and branch.state != "active":
            branch = await self._branch(branch.parent_branch_id)
        return await self.place_on(session, branch)

    async def place_on(self, session: Session, branch: Branch | None) -> Place:
        """Return the end of a branch; one without thoughts goes on from the branch above it."""
        above, find = branch, self.store.find
        while above is not None:
            found = await find(Thought, abandoned=False, newest=True, limit=1, branch_id=above.id)
            if found:
                return Place(branch=branch, tip=found[0])
            above = await self._branch(above.parent_branch_id)
        return Place(branch=branch, tip=await self.store.get_latest_thought(session.id))

    async def _branch(self, key: str | None) -> Branch | None:
        return await self.store.get_branch(key) if key is not None else None

    async def context(
        self, session: Session, place: Place, *, title: str, most: int = MAX_PROMPT_THOUGHTS
    ) -> str:
        """Return the thoughts that a prompt shows: the path, then the best of other branches."""
        store, key = self.store, session.id
        path: list[Thought] = []
        if place.tip is not None:
            path = [*await store.get_thought_chain(place.tip, MAX_PROMPT_THOUGHTS), place.tip]
            if path[0].branch_id is not None and len(path) < MAX_PROMPT_THOUGHTS:
                # The first branch follows the thoughts before it, without a link to them.
                found = await store.find(
                    Thought, abandoned=False, newest=True, limit=1, session_id=key, branch_id=None
                )
                if found and (found[0].position or 0) < (path[0].position or 0):
                    chain = await store.get_thought_chain(found[0], MAX_PROMPT_THOUGHTS)
                    path = [*chain, found[0], *path]
        first = await store.get_first_thought(key)
        thoughts = within_budget(first, path, most=most, budget=BUDGET_TOKENS)
        if not thoughts:
            return ""
        text = f"{title}:\n{as_lines(thoughts)}\n\n"
        if place.branch is None:
            return text
        shown = {thought.id for thought in (*path, *thoughts)}
        best = await store.get_best_thoughts(key, MAX_PROMPT_OTHERS + len(shown))
        others = [thought for thought in best if thought.id not in shown][:MAX_PROMPT_OTHERS]
        branches = {branch.id: branch for branch in await store.get_session_branches(key)}
        lines = [
            f"- [{branch.name}, {branch.state}] {as_lines([thought]).removeprefix('- ')}\n"
            for thought in others
            if (branch := branches.get(thought.branch_id or "")) is not None
        ]
        if lines:
            text += f"Other branches, not part of this path:\n{''.join(lines)}\n"
        return text


class Run(Protocol):
    """The function of a tool."""

    __name__: str

    def __call__(self, params: Any, call: CallContext, /) -> Awaitable[Outcome[ResultPart]]:
        """Run the tool."""
        ...


def _not_concluded(session: Session) -> Session:
    if session.status == "concluded":
        advice = "call reasoning_session_reopen to go on with it"
        raise session_error(f"Session {session.id} is concluded; {advice}")
    return session


def touched(session: Session) -> Session:
    """Return a session with the current time as its last change."""
    return replace(session, updated_at=now())
