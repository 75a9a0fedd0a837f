"""A run that was recorded, for the tests of what is made of traces."""

from __future__ import annotations

from plait.traces.codec import Redact
from plait.traces.messages.message import Message, ToolUseContent, UsageMetadata
from plait.traces.recorder import Listener, Recorder, Sink
from tests.clock import FakeClock

QUESTION = "How warm is it in Köln?"


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
    recorder = Recorder(
        sink, redact=redact, listeners=listeners, clock=FakeClock(step=1.0), run="r1"
    )
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
