"""Sessions on a tape: plays recorded answers, and records those of servers."""

from __future__ import annotations

import asyncio
import contextvars
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, cast

import anyio

from plait._support import mcp_types as types
from plait.client.config.servers import ServerConfig
from plait.client.protocol.exchange import (
    PendingRequest,
    Sender,
    as_current,
    current_exchange,
)
from plait.client.protocol.reading import (
    LimitError,
    Message,
    RequestId,
    coerced_id,
    parse_json,
    read,
)
from plait.client.protocol.session import SUBSCRIPTION_ID
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
CANCELLED = "notifications/cancelled"

Params = Mapping[str, Any] | None
Push = Callable[[dict[str, Any]], Awaitable[None]]
"""Hands a JSON-RPC message to the client, in the context of the request that it belongs to."""


class TapePlayer:
    """Plays the server of one session."""

    def __init__(
        self,
        tape: Tape,
        wire: Wire,
        push: Push,
        *,
        cut: Callable[[], object] = lambda: None,
        has_server: bool = False,
    ) -> None:
        """Play the tape; `has_server` means that what is not on it goes to the server.

        `cut` ends the connection, where a fault of the tape says so.
        """
        self._tape = tape
        self._wire = wire
        self._push = push
        self._cut = cut
        self._has_server = has_server
        self._playing: dict[RequestId | None, asyncio.Task[None]] = {}
        """The requests that are played."""
        self._questions: dict[RequestId | None, asyncio.Future[dict[str, Any]]] = {}
        """Recorded requests of the server that the client has not answered."""
        self._listening: RequestId | None = None

    async def stop(self) -> None:
        """End what is played."""
        tasks = tuple(self._playing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def plays(self, request_id: RequestId | None, method: str, params: Params) -> bool:
        """Start to play the answer to a request; return whether it is not for the server."""
        tape, server = self._tape, self._wire.server
        if not tape.plays or (self._has_server and method in HANDSHAKE):
            return False
        compared = comparable(params, self._wire.redact)
        fault = tape.fault_for(server, method, compared)
        recorded = None if fault is not None else tape.find(server, method, compared)
        if fault is not None:
            work = self._fail(request_id, fault)
        elif recorded is not None:
            work = self._play(request_id, params, recorded)
        elif self._has_server:
            return False
        else:
            text = tape.explain_miss(server, method, compared)
            work = self._refuse(request_id, NOT_RECORDED, text)
        task = asyncio.get_running_loop().create_task(work)
        self._playing[request_id] = task
        task.add_done_callback(lambda _: self._playing.pop(request_id, None))
        return True

    def is_playing(self, exchange: PendingRequest | None) -> bool:
        """Return whether the answer to a request is being played."""
        return exchange is not None and exchange.request_id in self._playing

    def cancel(self, request_id: RequestId | None) -> bool:
        """Stop playing the answer to a request; return whether it was played."""
        task = self._playing.get(request_id)
        return task is not None and task.cancel()

    def answer(self, question_id: RequestId | None, answer: dict[str, Any]) -> bool:
        """Take the client's answer to a question; return whether the question was played."""
        question = self._questions.pop(question_id, None)
        if question is not None and not question.done():
            question.set_result(answer)
        return question is not None

    async def _fail(self, request_id: RequestId | None, fault: str) -> None:
        if fault == "cut":
            self._cut()
        elif fault == "error":
            text = "a fault was laid over the tape"
            await self._refuse(request_id, types.INTERNAL_ERROR, text)

    async def _refuse(self, request_id: RequestId | None, code: int, text: str) -> None:
        await self._respond(request_id, {"error": {"code": code, "message": text}})

    async def _play(self, request_id: RequestId | None, params: Params, recorded: Recorded) -> None:
        for number, step in enumerate(recorded.steps):
            if "notification" in step:
                await self._notify(step["notification"], request_id, params)
                continue
            # The client must answer what the server asked as it did then.
            question, question_id = step["request"], f"tape-{request_id}-{number}"
            answered = asyncio.get_running_loop().create_future()
            self._questions[question_id] = answered
            await self._push({"jsonrpc": "2.0", "id": question_id, **question})
            answer = redacted(await answered, self._wire.redact)
            if "answer" in step and answer != step["answer"]:
                text = f"{self._wire.server}: the answer to {question['method']} differs from the"
                text += f" recorded one in {self._tape.path}; record it again"
                await self._refuse(request_id, NOT_RECORDED, text)
                return
        if recorded.error is not None:
            await self._respond(request_id, {"error": recorded.error})
        elif recorded.answered:
            await self._respond(request_id, {"result": recorded.result})
        else:
            self._listening = request_id
        for notification in recorded.after:
            await self._notify(notification, self._listening, None)

    async def _notify(
        self, notification: Mapping[str, Any], subscription: RequestId | None, params: Params
    ) -> None:
        """Send a recorded notification, with the ids of this session."""
        fields = dict(notification.get("params") or {})
        if notification["method"] == _PROGRESS:
            meta: Mapping[str, Any] = (params or {}).get("_meta") or {}
            if (token := meta.get("progressToken")) is None:
                return
            fields["progressToken"] = token
        if SUBSCRIPTION_ID in (fields.get("_meta") or {}):
            fields["_meta"] = {**fields["_meta"], SUBSCRIPTION_ID: subscription}
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": notification["method"]}
        await self._push({**message, "params": fields} if fields else message)

    async def _respond(self, request_id: RequestId | None, outcome: dict[str, Any]) -> None:
        await self._push({"jsonrpc": "2.0", "id": request_id, **outcome})


@asynccontextmanager
async def link_tape(
    tape: Tape,
    server: ServerConfig,
    wire: Wire,
    link: Callable[[], AbstractAsyncContextManager[None]],
) -> AsyncGenerator[None]:
    """Play the tape, or connect to the server by `link` and record."""
    traffic = _TapedTraffic(tape, server, wire)
    if not tape.records:
        wire.use(traffic)
        try:
            yield
        finally:
            await traffic.player.stop()
            await wire.aclose()
        return
    wire.taps.insert(0, traffic)
    try:
        async with link():
            try:
                yield
            finally:
                await traffic.player.stop()
    finally:
        wire.taps.remove(traffic)


class _TapedTraffic:
    """Leaves requests to the player, and sends the others to the server, if there is one.

    A request is recorded with what is exchanged before its answer.
    """

    any_thread = False
    """Answers are played by tasks in the loop of the connections."""
    is_direct = False
    """A direct call may run beside one whose questions and notifications would be taken for its."""

    def __init__(self, tape: Tape, server: ServerConfig, wire: Wire) -> None:
        self._inner: Sender | None = None
        self._limits = server.incoming
        self._tape = tape
        self._wire = wire
        self.player = TapePlayer(tape, wire, self._receive, cut=self._cut, has_server=tape.records)
        self._open: dict[RequestId | None, tuple[Recorded, float]] = {}
        """Requests that were sent to the server and have no answer, with their time."""
        self._questions: dict[RequestId | None, dict[str, Any]] = {}
        """Requests of the server that the client has not answered, as steps of a recording."""

    async def _receive(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        await self._wire.receive(body, self._limits, context=contextvars.copy_context())

    def _cut(self) -> None:
        self._wire.end("the server closed the connection")
        self._wire.close()

    def over(self, sender: Sender) -> Sender:
        self._inner = sender
        return self

    def send(self, body: bytes, request: PendingRequest) -> None:
        """Play the answer to a request, or send it and record its answer."""
        params = cast("dict[str, Any]", parse_json(body)).get("params")
        with as_current(request):
            if self.player.plays(request.request_id, request.method, params):
                request.written = True
                return
        if self._inner is None:
            raise anyio.ClosedResourceError
        compared = comparable(params, self._wire.redact)
        recorded = Recorded(self._wire.server, request.method, compared, answered=False)
        self._open[request.request_id] = recorded, time.monotonic()
        request.wake = partial(self._record_outcome, request, request.wake)
        try:
            self._inner.send(body, request)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._record(request)
            raise

    async def deliver(self, body: bytes) -> None:
        message = cast("dict[str, Any]", parse_json(body))
        if "method" not in message:
            answer = outcome_of(message)
            if self.player.answer(message["id"], answer):
                return
            if (step := self._questions.pop(message["id"], None)) is not None:
                step["answer"] = redacted(answer, self._wire.redact)
        if self._inner is not None:
            await self._inner.deliver(body)

    def cancel(self, request: PendingRequest, notification: bytes) -> None:
        """Stop what is played, or tell the server that the caller no longer waits."""
        self._record(request)
        if not self.player.cancel(request.request_id) and self._inner is not None:
            self._inner.cancel(request, notification)

    def _record_outcome(self, request: PendingRequest, wake: Callable[[], None]) -> None:
        try:
            self._record(request)
        finally:
            wake()

    def _record(self, request: PendingRequest) -> None:
        """Record a request with its answer; without one, it is not recorded."""
        recorded, began = self._open.pop(request.request_id, (None, 0.0))
        outcome = request.message
        if recorded is None or outcome is None:
            return
        if request.body and "error" not in outcome:
            # The message of a list has rows in place of tools.
            try:
                whole = read(request.body, self._limits)
                outcome = {"result": whole.decoded_result(self._limits)}
            except (ValueError, LimitError):
                return
        recorded.answered = True
        fields = redacted(outcome_of(outcome), self._wire.redact)
        recorded.result, recorded.error = fields.get("result"), fields.get("error")
        recorded.seconds = round(time.monotonic() - began, 4)
        self._tape.write(recorded.to_line())

    def received(self, message: Message, context: contextvars.Context | None) -> None:
        """Record a request or a notification of the server, unless it is played.

        It is a step of the request that it belongs to, as far as that is known and unanswered.
        """
        exchange = None if context is None else context.run(current_exchange.get)
        if self.player.is_playing(exchange):
            return
        recorded = self._request_of(message.params, exchange)
        fields: dict[str, Any] = {"method": message.method or ""}
        if message.params:
            fields["params"] = message.params
        fields = redacted(fields, self._wire.redact)
        if message.id is not None:
            if recorded is not None:
                step = self._questions[message.id] = {"request": fields}
                recorded.steps.append(step)
            return
        # What differs from session to session is left out.
        params = cast("dict[str, Any]", fields.get("params") or {})
        if fields["method"] == _PROGRESS:
            params.pop("progressToken", None)
        meta = params.get("_meta")
        if isinstance(meta, dict) and SUBSCRIPTION_ID in meta:
            meta[SUBSCRIPTION_ID] = None
        if recorded is None or (recorded.method == _LISTEN and recorded.steps):
            self._tape.write({"server": self._wire.server, "notification": fields})
            return
        recorded.steps.append({"notification": fields})
        if recorded.method == _LISTEN:
            # It stays open, so that its line would never be written.
            self._tape.write(recorded.to_line())

    def _request_of(self, params: Params, exchange: PendingRequest | None) -> Recorded | None:
        """Return the request that a message of the server belongs to, as far as it is known."""
        meta: Mapping[str, Any] = (params or {}).get("_meta") or {}
        named = (params or {}).get("progressToken", meta.get(SUBSCRIPTION_ID))
        if named is not None:
            return self._open.get(coerced_id(named), (None, 0.0))[0]
        if exchange is not None and exchange.request_id in self._open:
            return self._open[exchange.request_id][0]
        answering = [one for one, _ in self._open.values() if one.method != _LISTEN]
        return answering[-1] if answering else None


def outcome_of(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a response says, without its id and empty fields."""
    if (error := message.get("error")) is None:
        return {"result": message.get("result")}
    return {"error": {key: value for key, value in error.items() if value is not None}}
