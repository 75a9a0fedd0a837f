"""A run that was recorded, for the tests of what is made of traces."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from plait.traces.codec import Redact
from plait.traces.messages.message import Message, ToolUseContent, UsageMetadata
from plait.traces.recorder import Listener, Recorder, Sink

QUESTION = "How warm is it in Köln?"


class SetClock:
    """A clock that goes on by a step whenever it is looked at; without one, it must be moved."""

    def __init__(self, step: float = 0.0) -> None:
        self.seconds = 0.0
        self._step = step

    def monotonic(self) -> float:
        self.seconds += self._step
        return self.seconds

    def now(self) -> datetime:
        return datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC) + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Lines:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, line: bytes) -> None:
        self.data += line


def begun(
    sink: Sink | None = None, *, redact: Redact | None = None, listeners: tuple[Listener, ...] = ()
) -> Recorder:
    """Record the beginning of a run: a turn with two calls, answered in the other order."""
    recorder = Recorder(sink, redact=redact, listeners=listeners, clock=SetClock(1.0), run="r1")
    recorder.run_started(
        [Message.system("Be brief."), Message.user(QUESTION)],
        interface="langchain",
        model="small",
        servers=["weather"],
        tools=["weather/now"],
        max_turns=5,
    )
    recorder.turn(
        Message.assistant(
            "I look.",
            [
                ToolUseContent("c1", "now", {"city": "Köln"}),
                ToolUseContent("c2", "now", {"city": "Bonn"}),
            ],
        ),
        model="small-1",
        usage=UsageMetadata(10, 5, 15),
    )
    recorder.tool_called("c1", "now", {"city": "Köln"}, server="weather", tool="now")
    recorder.tool_called("c2", "now", {"city": "Bonn"}, server="weather", tool="now")
    recorder.tool_returned("c2", "no such city", is_error=True)
    recorder.retry("weather", "now", 2, reason="connection lost")
    recorder.heal("weather", reason="exited", seconds=0.5)
    recorder.tool_returned("c1", "21 °C", attempts=2)
    return recorder
