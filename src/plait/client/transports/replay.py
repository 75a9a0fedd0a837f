"""The transport of a client with a tape: plays recorded answers, and records those of servers."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import anyio
from mcp.client._transport import TransportStreams
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from plait._support.redact import Redactor
from plait.client.protocol.exchange import current_exchange
from plait.client.protocol.reading import RequestId, coerced_id
from plait.client.transports.streams import (
    BorrowedStream,
    MergedRead,
    frames_of,
    start_task,
)
from plait.client.transports.tape import (
    HANDSHAKE,
    NOT_RECORDED,
    Recorded,
    Tape,
    comparable,
    redacted,
)
from plait.client.transports.wire import Wire

_LISTEN = "subscriptions/listen"
_PROGRESS = "notifications/progress"
_CANCELLED = "notifications/cancelled"

Live = tuple[ReadStream["SessionMessage | Exception"], WriteStream[SessionMessage]]


@asynccontextmanager
async def open_taped(
    tape: Tape, wire: Wire, live: AbstractAsyncContextManager[TransportStreams]
) -> AsyncGenerator[TransportStreams]:
    """Play the tape, or connect to the server and record; `live` is opened only for that."""
    if tape.records:
        async with live as streams, _running(TapedSession(tape, wire, streams)) as taped:
            yield taped
        return
    async with _running(TapedSession(tape, wire, None)) as taped:
        yield taped


@asynccontextmanager
async def _running(session: TapedSession) -> AsyncGenerator[TransportStreams]:
    try:
        yield session.read, session
    finally:
        await session.stop()


class TapedSession(BorrowedStream):
    """The sending stream of one session on a tape; `read` is the receiving one."""

    def __init__(self, tape: Tape, wire: Wire, live: Live | None) -> None:
        self._tape = tape
        self._wire = wire
        self._server = wire.server
        self._live = None if live is None else live[1]
        self._recording: dict[RequestId | None, tuple[Recorded, float]] = {}
        """Requests that were sent to the server and have no response, with their time."""
        self._asked: dict[RequestId | None, dict[str, Any]] = {}
        """Requests of the server that the client has not answered, as steps of a recording."""
        self._playing: dict[RequestId, asyncio.Task[None]] = {}
        self._questions: dict[RequestId, asyncio.Future[dict[str, Any]]] = {}
        """Recorded requests of the server that the client has not answered."""
        self._listening: RequestId | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.read = MergedRead(_Silence() if live is None else _Recorder(live[0], self))
        self._pump = start_task(self.read.pump(), self._tasks)

    async def stop(self) -> None:
        """End what is played."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def send(self, item: SessionMessage, /) -> None:
        """Play the answer to a request, or pass the message on to the server."""
        match item.message:
            case JSONRPCRequest() as request:
                if not self._play(request):
                    await self._record_request(item, request)
                return
            case JSONRPCResponse() | JSONRPCError() as answer:
                answer_id = coerced_id(answer.id)
                if (question := self._questions.pop(answer_id or "", None)) is not None:
                    if not question.done():
                        question.set_result(_answer(answer))
                    return
                if (step := self._asked.pop(answer_id, None)) is not None:
                    step["answer"] = redacted(_answer(answer), self._wire.redact)
            case JSONRPCNotification(method=method, params=params):
                played = self._playing.get((params or {}).get("requestId", ""))
                if method == _CANCELLED and played is not None:
                    played.cancel()
                    return
        if self._live is not None:
            await self._live.send(item)

    def _play(self, request: JSONRPCRequest) -> bool:
        """Start playing the recorded answer, if there is one."""
        tape, method = self._tape, request.method
        if not tape.plays or (self._live is not None and method in HANDSHAKE):
            return False
        params = comparable(request.params, self._wire.redact)
        fault = tape.fault_for(self._server, method, params)
        recorded = None if fault is not None else tape.find(self._server, method, params)
        if fault is None and recorded is None and self._live is not None:
            return False
        if (exchange := current_exchange()) is not None:
            exchange.written = True
        context = contextvars.copy_context()
        if fault is not None:
            self._fail(request, fault, context)
        elif recorded is None:
            text = tape.explain_miss(self._server, method, params)
            self._respond(request, context, error=ErrorData(code=NOT_RECORDED, message=text))
        else:
            playing = self._answered(request, recorded, context)
            task = start_task(playing, self._tasks, context)
            self._playing[request.id] = task
            task.add_done_callback(lambda _: self._playing.pop(request.id, None))
        return True

    def _fail(self, request: JSONRPCRequest, fault: str, context: contextvars.Context) -> None:
        if fault == "cut":
            self._pump.cancel()
        elif fault == "error":
            error = ErrorData(code=INTERNAL_ERROR, message="a fault was laid over the tape")
            self._respond(request, context, error=error)

    async def _answered(
        self, request: JSONRPCRequest, recorded: Recorded, context: contextvars.Context
    ) -> None:
        for number, step in enumerate(recorded.steps):
            if "notification" in step:
                self._notify(step["notification"], request, context)
                continue
            different = await self._ask(step, f"tape-{request.id}-{number}", context)
            if different is not None:
                self._respond(
                    request, context, error=ErrorData(code=NOT_RECORDED, message=different)
                )
                return
        if recorded.error is not None:
            error = ErrorData.model_validate(recorded.error)
            self._respond(request, context, error=error)
        elif recorded.answered:
            self._respond(request, context, result=recorded.result)
        else:
            self._listening = request.id
        for notification in recorded.after:
            self._notify(notification, None, context)

    async def _ask(
        self, step: Mapping[str, Any], question_id: str, context: contextvars.Context
    ) -> str | None:
        """Send a recorded request to the client; return how its answer differs, if it does."""
        question = step["request"]
        answered = asyncio.get_running_loop().create_future()
        self._questions[question_id] = answered
        message = JSONRPCRequest(jsonrpc="2.0", id=question_id, **question)
        self._push(message, context)
        answer = redacted(await answered, self._wire.redact)
        if "answer" not in step or answer == step["answer"]:
            return None
        return (
            f"{self._server}: the answer to {question['method']} differs from the recorded one "
            f"in {self._tape.path}; record it again"
        )

    def _notify(
        self,
        notification: Mapping[str, Any],
        request: JSONRPCRequest | None,
        context: contextvars.Context,
    ) -> None:
        params = dict(notification.get("params") or {})
        if notification["method"] == _PROGRESS:
            meta: dict[str, Any] = ((request and request.params) or {}).get("_meta") or {}
            if (token := meta.get("progressToken")) is None:
                return
            params["progressToken"] = token
        if SUBSCRIPTION_ID_META_KEY in (params.get("_meta") or {}):
            listening = self._listening if request is None else request.id
            params["_meta"] = {**params["_meta"], SUBSCRIPTION_ID_META_KEY: listening}
        message = JSONRPCNotification(
            jsonrpc="2.0", method=notification["method"], params=params or None
        )
        self._push(message, context)

    def _respond(
        self,
        request: JSONRPCRequest,
        context: contextvars.Context,
        *,
        result: Any = None,
        error: ErrorData | None = None,
    ) -> None:
        if error is not None:
            self._push(JSONRPCError(jsonrpc="2.0", id=request.id, error=error), context)
        else:
            self._push(JSONRPCResponse(jsonrpc="2.0", id=request.id, result=result), context)

    def _push(
        self,
        message: JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError,
        context: contextvars.Context,
    ) -> None:
        self.read.push(SessionMessage(message), context)

    async def _record_request(self, item: SessionMessage, request: JSONRPCRequest) -> None:
        params = comparable(request.params, self._wire.redact)
        recorded = Recorded(self._server, request.method, params, answered=False)
        self._recording[request.id] = recorded, time.monotonic()
        if self._live is not None:
            await self._live.send(item)

    def received(self, item: SessionMessage, context: contextvars.Context | None) -> None:
        """Record a message of the server."""
        match item.message:
            case JSONRPCResponse() | JSONRPCError() as answer:
                self._record_answer(answer)
            case JSONRPCRequest() as question:
                fields = redacted(_fields(question), self._wire.redact)
                step: dict[str, Any] = {"request": fields}
                if (recorded := self._request_of(question.params, context)) is not None:
                    recorded.steps.append(step)
                    self._asked[question.id] = step
            case JSONRPCNotification() as notification:
                self._record_notification(notification, context)

    def _record_answer(self, answer: JSONRPCResponse | JSONRPCError) -> None:
        recorded, began = self._recording.pop(coerced_id(answer.id), (None, 0.0))
        if recorded is None:
            return
        recorded.answered = True
        fields = redacted(_answer(answer), self._wire.redact)
        recorded.result, recorded.error = fields.get("result"), fields.get("error")
        recorded.seconds = round(time.monotonic() - began, 4)
        self._tape.write(recorded.to_line())

    def _record_notification(
        self, notification: JSONRPCNotification, context: contextvars.Context | None
    ) -> None:
        recorded = self._request_of(notification.params, context)
        fields = _without_ids(redacted(_fields(notification), self._wire.redact))
        if recorded is None or (recorded.method == _LISTEN and recorded.steps):
            self._tape.write({"server": self._server, "notification": fields})
            return
        recorded.steps.append({"notification": fields})
        if recorded.method == _LISTEN:
            # It stays open, so that its line would never be written.
            self._tape.write(recorded.to_line())

    def _request_of(
        self, params: Mapping[str, Any] | None, context: contextvars.Context | None
    ) -> Recorded | None:
        """Return the request that a message of the server belongs to, as far as it is known."""
        meta: Mapping[str, Any] = (params or {}).get("_meta") or {}
        named = (params or {}).get("progressToken", meta.get(SUBSCRIPTION_ID_META_KEY))
        if named is not None:
            return self._recording.get(coerced_id(named), (None, 0.0))[0]
        exchange = None if context is None else context.run(current_exchange)
        if exchange is not None and exchange.request_id in self._recording:
            return self._recording[exchange.request_id][0]
        answering = [one for one, _ in self._recording.values() if one.method != _LISTEN]
        return answering[-1] if answering else None


class _Recorder(BorrowedStream):
    """The receiving stream of a server, each of whose messages is recorded."""

    def __init__(
        self, inner: ReadStream[SessionMessage | Exception], session: TapedSession
    ) -> None:
        self._inner = inner
        self._session = session

    @property
    def last_context(self) -> contextvars.Context | None:
        """The context the last item was sent in, where the transport keeps it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return await self.__anext__()

    async def __anext__(self) -> SessionMessage | Exception:
        item = await self._inner.__anext__()
        if isinstance(item, SessionMessage):
            self._session.received(item, self.last_context)
        return item


class _Silence(BorrowedStream):
    """A receiving stream without items, read until its task is cancelled."""

    async def receive(self) -> SessionMessage | Exception:
        return await self.__anext__()

    async def __anext__(self) -> SessionMessage | Exception:
        return await asyncio.get_running_loop().create_future()


def _answer(answer: JSONRPCResponse | JSONRPCError) -> dict[str, Any]:
    if isinstance(answer, JSONRPCResponse):
        return {"result": answer.result}
    return {"error": answer.error.model_dump(by_alias=True, exclude_none=True)}


def _fields(message: JSONRPCRequest | JSONRPCNotification) -> dict[str, Any]:
    fields: dict[str, Any] = {"method": message.method}
    if message.params:
        fields["params"] = message.params
    return fields


def _without_ids(fields: dict[str, Any]) -> dict[str, Any]:
    """Remove what differs from session to session."""
    params = cast("dict[str, Any]", fields.get("params") or {})
    if fields["method"] == _PROGRESS:
        params.pop("progressToken", None)
    meta = params.get("_meta")
    if isinstance(meta, dict) and SUBSCRIPTION_ID_META_KEY in meta:
        meta[SUBSCRIPTION_ID_META_KEY] = None
    return fields


async def serve_stdio(tape: Tape, server: str) -> None:
    """Play a recorded server on standard input and output until the input ends."""
    session = TapedSession(tape, Wire(server, Redactor(), lambda: None), None)
    lines = anyio.wrap_file(sys.stdin.buffer)

    async def write() -> None:
        async for item in session.read:
            if isinstance(item, SessionMessage):
                body = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                sys.stdout.buffer.write(body.encode("utf-8", "replace") + b"\n")
                sys.stdout.buffer.flush()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        async for line in lines:
            for message in frames_of(line).messages:
                await session.send(SessionMessage(message))
        await session.stop()
