"""The recorder, with which engines write the trace of a run."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from threading import RLock
from typing import Any, Literal, Protocol, TypeVar
from uuid import uuid4

from plait._support.clock import Clock, SystemClock
from plait._version import __version__
from plait.errors import PlaitError
from plait.traces import events
from plait.traces.codec import Cleaner, Redact, bytes_from_base64, line_from_event
from plait.traces.events import Action, Decision, DeltaKind, Status, TraceEvent
from plait.traces.messages.message import Message, UsageMetadata, to_prompt_string
from plait.traces.trace import Trace

logger = logging.getLogger("plait.traces")

ToolDefinition = tuple[str, str, Mapping[str, Any]]
"""The name of a tool for the model, its description and its input schema."""

Listener = Callable[[TraceEvent], None]
"""Called with each event as it happens, without redaction."""

_PARTS_SECONDS = 0.05
"""Parts of an answer that come faster are written together."""

_MAX_IMAGE_BYTES = 512 * 1024
"""The largest image of a tool result whose bytes a trace keeps."""

_MAX_ALL_IMAGES_BYTES = 8 * 1024 * 1024
"""How many bytes of such images a trace keeps in all."""

Kind = TypeVar("Kind", bound=TraceEvent)


class Sink(Protocol):
    """Stores the lines of a trace."""

    def write(self, line: bytes) -> None:
        """Append a line."""
        ...


def hash_question(text: str) -> str:
    """Return the MD5 of a question, by which recordings are found."""
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


class Recorder:
    """Records one run; every method may be called from any thread.

    Without a sink it only keeps the events. Lines for the sink are redacted; the kept events are
    not, so that the result of a run is unchanged.
    """

    def __init__(
        self,
        sink: Sink | None = None,
        *,
        redact: Redact | None = None,
        listeners: Iterable[Listener] = (),
        clock: Clock | None = None,
        run: str | None = None,
    ) -> None:
        self.run = run or uuid4().hex
        self.cost_of: Callable[[str, UsageMetadata], float | None] | None = None
        """Computes the cost of a turn from its model and usage."""
        self._sink = sink
        self._cleaner = None if redact is None else Cleaner(redact)
        self._listeners = tuple(listeners)
        self._clock = clock or SystemClock()
        self._began = self._clock.monotonic()
        self._events: list[TraceEvent] = []
        self._open: dict[str, events.ToolCalled] = {}
        self._waited: dict[str, float] = {}
        """Seconds that open calls waited for people, by the ids of the calls."""
        self._started: int | None = None
        """The id of the first `RunStarted`."""
        self._continued: Trace | None = None
        self._turn: int | None = None
        """The id of the last turn."""
        self._turns = 0
        self._turn_of: dict[str, int] = {}
        """The ids of the turns that requested calls, by call."""
        self._defined: set[str] = set()
        self._images: set[str] = set()
        """The digests of the images whose bytes are kept."""
        self._image_bytes_left = _MAX_ALL_IMAGES_BYTES
        self._parts: list[str] = []
        """The parts of an answer that are not written yet."""
        self._part_of: tuple[DeltaKind, str | None, str | None] = ("text", None, None)
        self._parts_at = -_PARTS_SECONDS
        """When parts were written last."""
        self._flushes_later = False
        self._lock = RLock()

    @property
    def trace(self) -> Trace:
        """The trace so far."""
        with self._lock:
            return Trace(run=self.run, events=tuple(self._events))

    def run_started(
        self,
        messages: Sequence[Message],
        *,
        interface: str,
        model: str | None = None,
        question_hash: str | None = None,
        task_id: str | None = None,
        servers: Iterable[str] = (),
        tools: Iterable[str] = (),
        max_turns: int | None = None,
        timeout_seconds: float | None = None,
        parent_run: str | None = None,
        continues: Trace | None = None,
        unreached: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        definitions: Mapping[str, ToolDefinition] | None = None,
    ) -> events.RunStarted:
        """Record the start of a run; `tools` are `server/tool`, and so are the `definitions`.

        Without a `question_hash`, the user messages are hashed. The messages of a run that this
        one `continues` are not stored again in its file.
        """
        stored: set[str] = getattr(self._sink, "definitions", self._defined)
        digests = {name: self._define(tool, stored) for name, tool in (definitions or {}).items()}
        self._continued = continues
        started = self._add(
            events.RunStarted,
            interface=interface,
            model=model,
            messages=tuple(messages),
            question_hash=question_hash or hash_question(to_prompt_string(messages)),
            task_id=task_id,
            servers=tuple(servers),
            tools=tuple(tools),
            max_turns=max_turns,
            timeout_seconds=timeout_seconds,
            parent_run=parent_run,
            continues=continues and continues.run,
            plait=__version__,
            unreached=dict(unreached or {}),
            settings=dict(settings or {}),
            definitions=digests,
        )
        if self._started is None:
            self._started = started.id
        return started

    def tools_offered(self, definitions: Iterable[ToolDefinition]) -> None:
        """Record tools that a later request of the run offers, and that its start does not name."""
        for tool in definitions:
            self._define(tool, self._defined)

    def _define(self, tool: ToolDefinition, stored: set[str]) -> str:
        """Record the definition of a tool, unless it is stored, and return its digest."""
        name, description, schema = tool
        data = json.dumps([name, description, schema], sort_keys=True, default=str)
        digest = hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        is_stored = digest in stored
        stored.add(digest)
        self._defined.add(digest)
        if not is_stored:
            self._add(
                events.ToolDefined,
                digest=digest,
                name=name,
                description=description,
                input_schema=dict(schema),
            )
        return digest

    def summary(
        self, text: str, *, model: str | None = None, usage: UsageMetadata | None = None
    ) -> events.Summarized:
        """Record a summary that replaces the conversation so far."""
        parent = self._started if self._turn is None else self._turn
        usage = self._with_cost(usage, model)
        return self._add(events.Summarized, parent=parent, text=text, model=model, usage=usage)

    def _with_cost(self, usage: UsageMetadata | None, model: str | None) -> UsageMetadata | None:
        if self.cost_of is None or usage is None or usage.cost_usd is not None or model is None:
            return usage
        cost = self.cost_of(model, usage)
        return usage if cost is None else replace(usage, cost_usd=round(cost, 10))

    def delta(
        self, part: DeltaKind, text: str, *, call_id: str | None = None, name: str | None = None
    ) -> None:
        """Record a part of an answer as it arrives; parts that follow quickly are joined.

        It is written before listeners get it, so the trace has everything that was shown.
        """
        with self._lock:
            key = (part, call_id, name)
            if key != self._part_of:
                self._flush_parts()
                self._part_of = key
            if text:
                self._parts.append(text)
            if self._elapsed() - self._parts_at >= _PARTS_SECONDS:
                self._flush_parts()
            elif self._parts and not self._flushes_later:
                self._flush_later()

    def _flush_later(self) -> None:
        """Write the parts soon, even if nothing follows them: a stream may stall."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # in a thread: the next event writes them
            return
        self._flushes_later = True

        def flush() -> None:
            self._flushes_later = False
            self._flush_parts()

        loop.call_later(_PARTS_SECONDS, flush)

    def _flush_parts(self) -> None:
        with self._lock:
            if not self._parts:
                return
            text, self._parts = "".join(self._parts), []
            self._parts_at = self._elapsed()
            part, call_id, name = self._part_of
            parent = self._started
            facts = {"part": part, "text": text, "call_id": call_id, "name": name}
            self._add(events.Delta, parent=parent, **facts)

    def turn(
        self,
        message: Message,
        *,
        model: str | None = None,
        usage: UsageMetadata | None = None,
        seconds: float | None = None,
        stop_reason: str | None = None,
        node: str | None = None,
    ) -> events.Turn:
        """Record an answer of the model; `stop_reason` is why it ended."""
        self._flush_parts()  # first, as the cost may take time
        usage = self._with_cost(usage, model)
        with self._lock:
            self._turns += 1
            turn = self._add(
                events.Turn,
                parent=self._started,
                number=self._turns,
                message=message,
                model=model,
                usage=usage,
                seconds=seconds,
                stop_reason=stop_reason,
                node=node,
            )
            self._turn = turn.id
            self._turn_of.update((call.id, turn.id) for call in message.tool_calls)
            return turn

    def tool_called(
        self,
        call_id: str,
        name: str,
        arguments: Mapping[str, Any],
        *,
        server: str | None = None,
        tool: str | None = None,
        node: str | None = None,
    ) -> events.ToolCalled:
        """Record a tool call before it is made; `name` is the model's, `tool` the server's."""
        with self._lock:
            call = self._add(
                events.ToolCalled,
                parent=self._turn_of.get(call_id, self._turn),
                call_id=call_id,
                name=name,
                server=server,
                tool=tool,
                arguments=dict(arguments),
                node=node,
            )
            self._open[call_id] = call
            return call

    def tool_returned(
        self,
        call_id: str,
        content: str,
        *,
        is_error: bool = False,
        name: str | None = None,
        attempts: int = 1,
        notes: Iterable[str] = (),
        seconds: float | None = None,
        images: Iterable[tuple[str, str]] = (),
    ) -> events.ToolReturned:
        """Record a tool result as the model reads it; the rest comes from its call.

        `images` are the type and the bytes, in base64, of each image in the result.
        """
        with self._lock:
            call = self._open.pop(call_id, None)
            waited = self._waited.pop(call_id, None)
            if seconds is None and call is not None:
                seconds = round(max(0.0, self._elapsed() - call.at - (waited or 0.0)), 6)
            return self._add(
                events.ToolReturned,
                parent=self._turn if call is None else call.id,
                call_id=call_id,
                name=name or (call.name if call else "unknown"),
                server=call.server if call else None,
                tool=call.tool if call else None,
                content=content,
                is_error=is_error,
                seconds=seconds,
                waited_seconds=waited,
                attempts=attempts,
                notes=tuple(notes),
                images=tuple(self._image(*image) for image in images),
            )

    def _image(self, mime_type: str, data: str) -> events.ResultImage:
        """Describe an image; its bytes are kept once, and only up to a limit."""
        content = bytes_from_base64(data)
        digest = hashlib.sha256(content).hexdigest()
        size, kept = len(content), None
        if digest not in self._images and size <= min(_MAX_IMAGE_BYTES, self._image_bytes_left):
            self._images.add(digest)
            self._image_bytes_left -= size
            kept = data
        return events.ResultImage(mime_type=mime_type, digest=digest, size_bytes=size, data=kept)

    def approval(
        self,
        server: str,
        tool: str,
        decision: Decision,
        reason: str,
        *,
        by: Literal["person", "program", "policy"],
        call_id: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        message: str | None = None,
        seconds: float | None = None,
    ) -> events.ApprovalDecided:
        """Record what was decided about a call by the rule `reason`, and in how many seconds."""
        return self._add_about(
            events.ApprovalDecided,
            call_id,
            server,
            tool,
            waited_seconds=seconds,
            decision=decision,
            by=by,
            reason=reason,
            arguments=None if arguments is None else dict(arguments),
            message=message,
        )

    def retry(
        self,
        server: str,
        tool: str,
        attempt: int,
        *,
        reason: str | None = None,
        delay_seconds: float | None = None,
        call_id: str | None = None,
    ) -> events.Retried:
        """Record a retry; without an id, its call is found by server and tool."""
        facts: dict[str, Any] = {
            "attempt": attempt,
            "reason": reason,
            "delay_seconds": delay_seconds,
        }
        return self._add_about(events.Retried, call_id, server, tool, **facts)

    def model_retry(
        self,
        attempt: int,
        *,
        reason: str | None = None,
        delay_seconds: float | None = None,
        status: int | None = None,
    ) -> events.ModelRetried:
        """Record that a request to the model is repeated, as attempt number `attempt`."""
        return self._add(
            events.ModelRetried,
            parent=self._turn if self._turn is not None else self._started,
            attempt=attempt,
            reason=reason,
            delay_seconds=delay_seconds,
            status=status,
        )

    def heal(
        self, server: str, *, reason: str | None = None, seconds: float | None = None
    ) -> events.Healed:
        """Record that a lost server is connected again."""
        with self._lock:
            calls = self._open_calls(None, server, None)
            parent = calls[-1].id if calls else self._turn
            return self._add(
                events.Healed, parent=parent, server=server, reason=reason, seconds=seconds
            )

    def elicitation(
        self,
        server: str,
        question: str,
        action: Action | None = None,
        *,
        tool: str | None = None,
        call_id: str | None = None,
        seconds: float | None = None,
    ) -> events.Elicited:
        """Record an elicitation, its answer, and how many seconds that took."""
        facts: dict[str, Any] = {"question": question, "action": action, "waited_seconds": seconds}
        return self._add_about(events.Elicited, call_id, server, tool, **facts)

    def failed(self, error: BaseException) -> events.RunFailed:
        """Record the error that ends the run; call `ended` afterwards."""
        facts = error.to_dict() if isinstance(error, PlaitError) else {}
        return self._add(
            events.RunFailed,
            parent=self._started,
            error=type(error).__name__,
            message=str(error),
            facts=facts,
        )

    def ended(
        self,
        status: Status = "completed",
        *,
        final_response: str | None = None,
        usage: UsageMetadata | None = None,
        turns: int | None = None,
        session_id: str | None = None,
        actual_model: str | None = None,
    ) -> Trace:
        """Record the end of the run, and return its trace; what is `None` comes from the turns."""
        with self._lock:
            trace = self.trace
            self._add(
                events.RunEnded,
                parent=self._started,
                status=status,
                final_response=(
                    trace.response_for(status) if final_response is None else final_response
                ),
                turns=trace.turns if turns is None else turns,
                usage=trace.usage if usage is None else usage,
                session_id=session_id,
                actual_model=actual_model or trace.actual_model,
                seconds=round(self._elapsed(), 6),
                stop_reason=trace.stop_reason,
            )
            return self.trace

    def _add(self, kind: type[Kind], *, parent: int | None = None, **facts: Any) -> Kind:
        with self._lock:
            if self._parts:
                self._flush_parts()
            clock = self._clock
            event = kind(
                run=self.run,
                id=len(self._events),
                parent=parent,
                time=clock.now().isoformat(timespec="milliseconds").replace("+00:00", "Z"),
                at=round(clock.monotonic() - self._began, 6),
                **facts,
            )
            self._events.append(event)
            if self._sink is not None:
                stored = event
                if self._continued is not None and isinstance(event, events.RunStarted):
                    stored = _without_earlier(event, self._continued, self._sink)
                self._sink.write(line_from_event(stored, self._cleaner))
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:  # boundary: a listener must not end the run
                logger.exception("a listener of a trace failed")
        return event

    def _elapsed(self) -> float:
        return self._clock.monotonic() - self._began

    def _add_about(
        self,
        kind: type[Kind],
        call_id: str | None,
        server: str,
        tool: str | None,
        *,
        waited_seconds: float | None = None,
        **facts: Any,
    ) -> Kind:
        """Record what happened during an open call; without its id, by its server and tool.

        Time that a call waited for a person is no time of its tool; of several calls that could
        have waited, it is counted for none.
        """
        with self._lock:
            calls = self._open_calls(call_id, server, tool)
            if waited_seconds is not None:
                facts["seconds"] = round(waited_seconds, 6)
                if len(calls) == 1:
                    key = calls[0].call_id
                    self._waited[key] = round(self._waited.get(key, 0.0) + waited_seconds, 6)
            if calls:
                call_id, tool = calls[-1].call_id, tool or calls[-1].tool
            parent = calls[-1].id if calls else self._turn
            named = {"server": server, "tool": tool, "call_id": call_id}
            return self._add(kind, parent=parent, **named, **facts)

    def _open_calls(
        self, call_id: str | None, server: str, tool: str | None
    ) -> list[events.ToolCalled]:
        if call_id is not None:
            return [self._open[call_id]] if call_id in self._open else []
        same = (call for call in self._open.values() if call.server == server)
        return [call for call in same if tool is None or call.tool == tool]


def _without_earlier(started: events.RunStarted, continued: Trace, sink: Sink) -> events.RunStarted:
    """Return the start of a run without the messages that its file has in an earlier run."""
    before = tuple(continued.conversation)
    has_run: Callable[[str], bool] | None = getattr(sink, "has_run", None)
    if has_run is None or started.messages[: len(before)] != before or not has_run(continued.run):
        return started
    return replace(started, messages=started.messages[len(before) :], omitted=len(before))
