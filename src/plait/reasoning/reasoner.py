"""Runs tools: calls of one session in order, calls of different sessions concurrently."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import anyio

from plait.errors import PlaitError, RefusedError
from plait.reasoning.arguments import read_arguments, session_error, with_long_ids
from plait.reasoning.backends.http import PipeNames
from plait.reasoning.backends.port import Completer, OnProgress
from plait.reasoning.backends.settings import GotLimits
from plait.reasoning.call_context import CallContext, Outcome, ignore
from plait.reasoning.fields import Params
from plait.reasoning.results import Result, ResultPart
from plait.reasoning.storage.port import ConflictError, Storage
from plait.reasoning.tool_registry import TOOLS, UNLISTED, Tool
from plait.reasoning.values import Changes, Invocation

MAX_CONFLICTS = 50
"""How often a call is repeated because another process changed the session."""

OnChange = Callable[[str], Awaitable[None]]
"""Receives the id of a session that changed."""


class Reasoner:
    """Runs the tools over one store; `completer` is used unless a call has its own."""

    def __init__(
        self,
        store: Storage,
        completer: Completer,
        *,
        limits: GotLimits | None = None,
        pipes: PipeNames | None = None,
        include_snapshots: bool = True,
        on_change: OnChange = ignore,
    ) -> None:
        self.store = store
        self.completer = completer
        self._new_call = partial(
            CallContext,
            store=store,
            limits=limits or GotLimits(),
            pipes=pipes or PipeNames(),
            include_snapshots=include_snapshots,
        )
        self._on_change = on_change
        self._locks = WeakValueDictionary[str, asyncio.Lock]()
        """The locks of sessions that have calls."""

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        *,
        completer: Completer | None = None,
        report: OnProgress = ignore,
        is_compact: bool = False,
    ) -> ResultPart:
        """Run a tool, write its changes, and return its result.

        `is_compact` is for calls of the compact profile, which shows results in its own form.

        Raises:
            RefusedError: The call is invalid; nothing was changed.
            BackendError, ReplyError: The model gave no usable reply; nothing was changed.
        """
        tool = TOOLS.get(name) or UNLISTED.get(name)
        if tool is None:
            raise RefusedError(f"Unknown tool: {name}")
        params, adjusted = read_arguments(tool.params, arguments)
        call = self._new_call(
            tool=name, completer=completer or self.completer, is_compact=is_compact, report=report
        )
        key = await self._session_of(params)
        params = await with_long_ids(params, key, self.store)
        # A new session has no other calls to wait for.
        lock = self._locks.setdefault(key, asyncio.Lock()) if key else nullcontext()
        async with lock:
            outcome = await self._run(tool, params, call)
        session = outcome.changes.session if outcome.changes else None
        changed = session.id if session else key
        writes = not tool.read_only and (outcome.changes is not None or tool.destructive)
        if changed is not None and writes:
            await self._on_change(changed)
        result = outcome.result
        if not isinstance(result, Result):
            return result
        moves = [
            move.model_copy(update={"supply": lacking})
            if (lacking := TOOLS[move.tool].lacks(move.arguments, is_host=call.is_host))
            else move
            for move in result.next
        ]
        all_adjusted = {**adjusted, **(result.adjusted or {})} or None
        update = {"backend": call.completer.name, "next": moves, "adjusted": all_adjusted}
        return result.model_copy(update=update)

    async def _run(self, tool: Tool, params: Params, call: CallContext) -> Outcome[ResultPart]:
        """Run the tool and write; repeat both if the session changed in between."""
        for attempt in range(MAX_CONFLICTS):
            call.invocations.clear()
            started = time.monotonic()
            try:
                outcome = await tool.run(params, call)
            except PlaitError:
                for record in call.invocations:
                    key = record.session_id
                    is_stored = key is not None and await self.store.get_session(key) is not None
                    known = record if is_stored else replace(record, session_id=None)
                    await self.store.log_invocation(known)
                raise
            changes, invocations = outcome.changes, (*call.invocations,)
            if changes is not None and not invocations:
                # Calls without a request to a model are recorded too.
                record = Invocation(
                    session_id=changes.session.id if changes.session else None,
                    tool_name=call.tool,
                    backend=call.completer.name,
                    input={},
                    latency_ms=round((time.monotonic() - started) * 1000),
                )
                invocations = (record,)
            try:
                if invocations:
                    written = replace(changes or Changes(), invocations=invocations)
                    await self.store.write(written)
            except ConflictError:
                await anyio.sleep(random.uniform(0, 0.01 * min(attempt + 1, 10)))
            else:
                return outcome
        raise session_error("Another process keeps changing this session; call again")

    async def _session_of(self, params: Params) -> str | None:
        """Return the id of the session of a call; `None` for a new one."""
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
            value = await get(key) if key is not None else None
            if value is not None:
                return value.session_id
        return None
