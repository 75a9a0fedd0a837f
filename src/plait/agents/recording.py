"""The recorder of a run, and what it hears from the toolbox."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator
from datetime import datetime
from functools import partial
from types import TracebackType

import mcp_types as types
from mcp.client import ClientRequestContext
from mcp.client.session import ElicitationFnT

from plait.agents.config import AgentConfig
from plait.client.toolbox import Toolbox
from plait.errors import PlaitError
from plait.traces.codec import Redact
from plait.traces.events import Status
from plait.traces.file import TraceFile
from plait.traces.observer import Operation
from plait.traces.recorder import Recorder


@contextlib.contextmanager
def recorder_for(config: AgentConfig, redact: Redact) -> Generator[Recorder]:
    """Make the recorder that the settings of a run ask for; its file is closed after the block.

    An exception that leaves the block is recorded, with the end of the run.

    Raises:
        OSError: The file of the trace cannot be written.
    """
    file = None if config.trace is None else TraceFile(config.trace)
    listeners = () if config.on_event is None else (config.on_event,)
    recorder = Recorder(file, redact=redact, listeners=listeners)
    try:
        yield recorder
    except (asyncio.CancelledError, KeyboardInterrupt):
        _end(recorder, "cancelled")
        raise
    except Exception as error:
        recorder.failed(error)
        _end(recorder, "failed")
        raise
    finally:
        if file is not None:
            file.close()


def _end(recorder: Recorder, status: Status) -> None:
    if recorder.trace.ended is None:
        recorder.ended(status)


class RunObserver:
    """Tells a recorder of calls that are repeated, and of servers that come back.

    It is given to a toolbox as an observer; `watch` says which toolbox it is.
    """

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._toolbox: Toolbox | None = None
        self._reasons: dict[tuple[str, str], str] = {}
        self._lost: dict[str, tuple[datetime, str]] = {}
        self._seen: datetime | None = None

    def watch(self, toolbox: Toolbox, recorder: Recorder) -> None:
        """Say what to watch, and whom to tell."""
        self._toolbox = toolbox
        self._recorder = recorder
        events = toolbox.events()
        self._seen = events[-1].at if events else None

    def around(self, operation: Operation) -> contextlib.AbstractContextManager[None]:
        """Watch one attempt at a call."""
        key = (operation.server, operation.tool)
        if operation.attempt > 1 and self._recorder is not None:
            self._recorder.retry(*key, operation.attempt, reason=self._reasons.get(key))
        return _Attempt(partial(self._attempted, key))

    def _attempted(self, key: tuple[str, str], error: BaseException | None) -> None:
        if isinstance(error, PlaitError):
            self._reasons[key] = str(error)
        self._look()

    def hearing(self, ask: Callable[[str], ElicitationFnT]) -> Callable[[str], ElicitationFnT]:
        """Wrap what answers the questions of servers, so that they are recorded."""

        def answering(server: str) -> ElicitationFnT:
            answer = ask(server)

            async def recorded(
                context: ClientRequestContext, params: types.ElicitRequestParams
            ) -> types.ElicitResult | types.ErrorData:
                told = await answer(context, params)
                if self._recorder is not None:
                    action = told.action if isinstance(told, types.ElicitResult) else None
                    self._recorder.elicitation(server, params.message, action)
                return told

            return recorded

        return answering

    def _look(self) -> None:
        """Find the servers that were lost and opened again since the last time."""
        if self._toolbox is None or self._recorder is None:
            return
        events = self._toolbox.events()
        if not events or (self._seen is not None and events[-1].at <= self._seen):
            return
        for event in events:
            if self._seen is not None and event.at <= self._seen:
                continue
            self._seen = event.at
            if event.kind == "lost":
                self._lost.setdefault(event.server, (event.at, event.detail))
            elif event.kind == "opened" and event.server in self._lost:
                since, reason = self._lost.pop(event.server)
                gone = (event.at - since).total_seconds()
                self._recorder.heal(event.server, reason=reason or None, seconds=round(gone, 6))


class _Attempt(contextlib.AbstractContextManager[None]):
    """Tells how a block ended; a class, since every call has one."""

    __slots__ = ("_tell",)

    def __init__(self, tell: Callable[[BaseException | None], None]) -> None:
        self._tell = tell

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self._tell(exc_val)
