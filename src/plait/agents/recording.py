"""The recorder of a run, and the observer that records retries and reconnections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator
from datetime import datetime
from functools import partial

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
    """Create the recorder of a run; its file is closed after the block.

    An exception that leaves the block is recorded, with the end of the run.

    Raises:
        OSError: The trace file cannot be written.
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
    """Records retried calls, and servers that reconnect.

    Pass it to a toolbox as an observer, then call `watch`.
    """

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._toolbox: Toolbox | None = None
        self._reasons: dict[tuple[str, str], str] = {}
        self._lost: dict[str, tuple[datetime, str]] = {}
        self._seen: datetime | None = None

    def watch(self, toolbox: Toolbox, recorder: Recorder) -> None:
        """Connect the toolbox to a recorder."""
        self._toolbox = toolbox
        self._recorder = recorder
        events = toolbox.events()
        self._seen = events[-1].at if events else None

    def around(self, operation: Operation) -> contextlib.AbstractContextManager[None]:
        """Observe one attempt of a call."""
        key = (operation.server, operation.tool)
        if operation.attempt > 1 and self._recorder is not None:
            self._recorder.retry(*key, operation.attempt, reason=self._reasons.get(key))
        return _Attempt(partial(self._attempted, key))

    def _attempted(self, key: tuple[str, str], error: BaseException | None) -> None:
        if isinstance(error, PlaitError):
            self._reasons[key] = str(error)
        self._record_reconnections()

    def recording(
        self, on_elicitation: Callable[[str], ElicitationFnT]
    ) -> Callable[[str], ElicitationFnT]:
        """Wrap an elicitation callback, so that each elicitation is recorded."""
        return lambda server: partial(self._elicit, server, on_elicitation(server))

    async def _elicit(
        self,
        server: str,
        callback: ElicitationFnT,
        context: ClientRequestContext,
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult | types.ErrorData:
        result = await callback(context, params)
        if self._recorder is not None:
            action = result.action if isinstance(result, types.ElicitResult) else None
            self._recorder.elicitation(server, params.message, action)
        return result

    def _record_reconnections(self) -> None:
        """Record the servers that were lost and opened again since the last attempt."""
        if self._toolbox is None or self._recorder is None:
            return
        for event in self._toolbox.events():
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
    """Calls back when a block ends; a class, because every call creates one."""

    __slots__ = ("_on_end",)

    def __init__(self, on_end: Callable[[BaseException | None], None]) -> None:
        self._on_end = on_end

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._on_end(error)
