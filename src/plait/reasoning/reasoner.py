"""Running tools: one call after the other within a session, and each written at once.

Calls of different sessions run at the same time.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from plait.errors import PlaitError, RefusedError
from plait.reasoning.arguments import Adjustment, Params, read_arguments, session_error
from plait.reasoning.backends.pipes import PipeNames
from plait.reasoning.backends.port import Completer, Completion, OnProgress, Prompt
from plait.reasoning.backends.settings import GotLimits
from plait.reasoning.call_context import CallContext, Outcome
from plait.reasoning.registry import TOOLS, Tool
from plait.reasoning.results import Result, ResultPart
from plait.reasoning.storage.port import ConflictError, Storage
from plait.reasoning.values import Changes, Invocation

_MOST_CONFLICTS = 50
"""How often a call begins again because another process was faster."""

Changed = Callable[[str], Awaitable[None]]
"""Hears the id of a session that changed."""


async def _nobody(_text: str) -> None:
    return None


class _Remembering:
    """Asks the same thing only once in a call, however often the call begins again."""

    def __init__(self, completer: Completer) -> None:
        self.name = completer.name
        self._inner = completer
        self._known: dict[tuple[str, str, str], Completion] = {}

    def describe(self) -> str:
        """Say what answers."""
        return self._inner.describe()

    async def open(self) -> None:
        """Do nothing: the one inside is open."""

    async def complete(self, prompt: Prompt) -> Completion:
        """Answer what is known; ask the one inside for the rest."""
        key = (prompt.pipe, prompt.system, prompt.user)
        if key not in self._known:
            self._known[key] = await self._inner.complete(prompt)
        return self._known[key]

    async def aclose(self) -> None:
        """Do nothing: the one inside is closed by its owner."""


@dataclass(slots=True)
class _Turn:
    """Whose turn it is in a session."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    users: int = 0


class Reasoner:
    """The tools over one store; `completer` answers unless a call brings its own."""

    def __init__(
        self,
        store: Storage,
        completer: Completer,
        *,
        limits: GotLimits | None = None,
        pipes: PipeNames | None = None,
        changed: Changed = _nobody,
    ) -> None:
        self.store = store
        self.completer = completer
        self._limits = limits or GotLimits()
        self._pipes = pipes or PipeNames()
        self._changed = changed
        self._turns: dict[str, _Turn] = {}

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        *,
        completer: Completer | None = None,
        report: OnProgress = _nobody,
    ) -> ResultPart:
        """Run a tool, write what it changed, and return its result.

        Raises:
            RefusedError: The call does not fit; nothing was changed.
            BackendError, ReplyError: The model gave no usable answer; nothing was changed.
        """
        tool = TOOLS.get(name)
        if tool is None:
            raise RefusedError(f"Unknown tool: {name}")
        params, adjusted = read_arguments(tool.params, arguments)
        call = CallContext(
            tool=name,
            store=self.store,
            completer=_Remembering(completer or self.completer),
            limits=self._limits,
            pipes=self._pipes,
            report=report,
        )
        key = await self._session_of(params)
        async with self._turn(key):
            outcome = await self._settle(tool, params, call)
        if not tool.read_only:
            await self._announce(tool, outcome, key)
        return _finished(outcome.result, call, adjusted)

    async def _settle(self, tool: Tool, params: Params, call: CallContext) -> Outcome[ResultPart]:
        """Run the mode and write; begin again if the session changed in between."""
        for attempt in range(_MOST_CONFLICTS):
            call.invocations.clear()
            began = time.monotonic()
            try:
                outcome = await tool.run(params, call)
            except PlaitError:
                await self._note_failures(call)
                raise
            try:
                await self._write(outcome.changes, call, began)
            except ConflictError:
                await anyio.sleep(random.uniform(0, 0.01 * min(attempt + 1, 10)))
            else:
                return outcome
        raise session_error("Another process keeps changing this session; call again")

    async def _write(self, changes: Changes | None, call: CallContext, began: float) -> None:
        noted = (*call.invocations,)
        if changes is not None and not noted:
            # No model was asked, and the call is worth counting all the same.
            noted = (
                Invocation(
                    session_id=changes.session.id if changes.session else None,
                    tool_name=call.tool,
                    backend=call.completer.name,
                    input={},
                    latency_ms=round((time.monotonic() - began) * 1000),
                ),
            )
        if changes is None and noted:
            changes = Changes()
        if changes is not None:
            await self.store.write(replace(changes, invocations=noted))

    async def _note_failures(self, call: CallContext) -> None:
        """Keep the record of what was asked, though nothing came of it."""
        for note in call.invocations:
            known = note.session_id and await self.store.get_session(note.session_id)
            await self.store.log_invocation(note if known else replace(note, session_id=None))

    async def _announce(self, tool: Tool, outcome: Outcome[ResultPart], key: str | None) -> None:
        session = outcome.changes.session if outcome.changes else None
        changed = session.id if session else key
        if changed is not None and (outcome.changes is not None or tool.destructive):
            await self._changed(changed)

    async def _session_of(self, params: Params) -> str | None:
        """Find out which session a call is about; a new one has no id yet."""
        named: str | None = getattr(params, "session_id", None)
        if named is not None:
            return named
        for name, get in (
            ("branch_id", self.store.get_branch),
            ("checkpoint_id", self.store.get_checkpoint),
            ("thought_id", self.store.get_thought),
            ("graph_id", self.store.get_graph),
        ):
            key: str | None = getattr(params, name, None)
            found = await get(key) if key is not None else None
            if found is not None:
                return found.session_id
        return None

    @asynccontextmanager
    async def _turn(self, key: str | None) -> AsyncGenerator[None]:
        """Wait until the calls before this one are done with the session."""
        if key is None:
            yield
            return
        turn = self._turns.setdefault(key, _Turn())
        turn.users += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.users -= 1
            if turn.users == 0:
                del self._turns[key]


def _finished(
    result: ResultPart, call: CallContext, adjusted: Mapping[str, Adjustment]
) -> ResultPart:
    if not isinstance(result, Result):
        return result
    changed = {**adjusted, **(result.adjusted or {})}
    facts = {"backend": call.completer.name, "adjusted": changed or None}
    return result.model_copy(update=facts)
