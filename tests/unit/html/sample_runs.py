"""Runs for the tests of pages: one with everything in it, a hostile one, a long one."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

from plait.errors import ConnectError
from plait.traces.messages.message import (
    ImageContent,
    Message,
    Role,
    ThinkingContent,
    ToolUseContent,
    UsageMetadata,
)
from plait.traces.recorder import Recorder
from plait.traces.trace import Trace
from tests.clock import FakeClock


def png(width: int, height: int) -> bytes:
    """Draw a small picture."""
    rows = b"".join(
        b"\0" + b"".join(bytes((x * 255 // width, y * 255 // height, 160)) for x in range(width))
        for y in range(height)
    )
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


FORECAST: dict[str, Any] = {
    "city": "Köln",
    "days": [
        {"day": "Mon", "high": 21.5, "low": 12, "rain": False},
        {"day": "Tue", "high": 18, "low": 11, "rain": True, "notes": None},
    ],
    "source": {"station": "10513", "license": "CC-BY", "tags": []},
}


def full_run(*, run: str = "a1b2c3d4e5f6", warmer: float = 0.0, extra_turn: bool = False) -> Trace:
    """Record a run with parallel calls, a retry, a heal, an approval, an elicitation,
    an image and a failed call."""
    clock = FakeClock()
    recorder = Recorder(clock=clock, run=run)
    question = "Which of Köln and Bonn is warmer tomorrow? Book a train to the warmer one."
    picture = ImageContent(base64.b64encode(png(96, 48)).decode(), "image/png")
    recorder.run_started(
        [Message.system("You plan trips. Be brief."), Message.user(question, [picture])],
        interface="langchain",
        model="claude-haiku-5-5",
        servers=["weather", "trains"],
        tools=["weather/forecast", "trains/book"],
        max_turns=10,
        unreached={"maps": "connection refused"},
        settings={"temperature": 0.2, "policy": {"deny": ["trains/cancel"]}},
        definitions={
            "weather/forecast": (
                "forecast",
                "The forecast of a city.",
                {"type": "object", "properties": {"city": {"type": "string"}}},
            )
        },
    )
    clock.seconds = 1.4
    thinking = ThinkingContent("Two cities: I can look at both at once, then book.")
    calls = [
        ToolUseContent("c1", "forecast", {"city": "Köln", "days": 2}),
        ToolUseContent("c2", "forecast", {"city": "Bonn", "days": 2}),
    ]
    first = Message.assistant("I look at both forecasts.", calls)
    recorder.turn(
        Message(Role.ASSISTANT, [thinking, *first.content]),
        model="claude-haiku-5-5",
        usage=UsageMetadata(1240, 86, 1326, cost_usd=0.0017),
        seconds=1.4,
        stop_reason="tool_use",
    )
    recorder.tool_called("c1", "forecast", calls[0].input, server="weather", tool="forecast")
    recorder.tool_called("c2", "forecast", calls[1].input, server="weather", tool="forecast")
    clock.seconds = 1.9
    chart = ("image/png", base64.b64encode(png(64, 24)).decode())
    recorder.tool_returned("c2", "Bonn tomorrow: 20 °C, dry.", images=[chart])
    clock.seconds = 2.1
    recorder.retry(
        "weather", "forecast", 2, reason="connection lost", delay_seconds=0.2, call_id="c1"
    )
    clock.seconds = 2.6
    recorder.heal("weather", reason="the process exited with code 137", seconds=0.5)
    clock.seconds = 3.1
    forecast = json.loads(json.dumps(FORECAST))
    forecast["days"][0]["high"] += warmer
    recorder.tool_returned("c1", json.dumps(forecast, ensure_ascii=False), attempts=2)
    clock.seconds = 4.2
    booking = {"to": "Köln", "class": 2, "passenger": {"name": "Ann", "age": 44}}
    recorder.turn(
        Message.assistant("Köln is warmer.", [ToolUseContent("c3", "book", booking)]),
        model="claude-haiku-5-5",
        usage=UsageMetadata(1810, 64, 1874, cost_usd=0.0021),
        seconds=1.1,
        stop_reason="tool_use",
    )
    recorder.tool_called("c3", "book", booking, server="trains", tool="book")
    clock.seconds = 4.6
    recorder.approval(
        "trains", "book", "approve", "the policy asks about trains/*", by="person", call_id="c3"
    )
    clock.seconds = 5.3
    recorder.elicitation("trains", "Pay 23.40 € now?", "accept", tool="book", call_id="c3")
    clock.seconds = 5.9
    recorder.tool_returned("c3", "payment service unavailable (503)", is_error=True)
    if extra_turn:
        clock.seconds = 7.0
        recorder.turn(
            Message.assistant("Once more.", [ToolUseContent("c4", "book", booking)]),
            model="claude-haiku-5-5",
            usage=UsageMetadata(1900, 40, 1940, cost_usd=0.002),
            seconds=1.0,
        )
        recorder.tool_called("c4", "book", booking, server="trains", tool="book")
        clock.seconds = 7.8
        recorder.tool_returned("c4", "booked: ICE 1234, 09:12", notes=("cut to 200 characters",))
    clock.seconds += 1.2
    done = "Booked." if extra_turn else "The booking failed: the payment service is down."
    recorder.turn(
        Message.assistant(f"Köln is warmer ({21.5 + warmer:g} °C against 20 °C). {done}"),
        model="claude-haiku-5-5",
        usage=UsageMetadata(2010, 48, 2058, cost_usd=0.0022),
        seconds=1.2,
        stop_reason="end_turn",
    )
    return recorder.ended()


def failed_run() -> Trace:
    """Record a run that ended with an error."""
    clock = FakeClock()
    recorder = Recorder(clock=clock, run="deadbeef0001")
    recorder.run_started([Message.user("Do it.")], interface="manual", model="small")
    clock.seconds = 0.8
    recorder.failed(ConnectError("the server did not start", server="files"))
    return recorder.ended("failed")


HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31mred\x1b[0m"
    "\u202eevil\u202c \u200bhidden\U000e0041 javascript:alert(3) \"quoted' & \x00 \ud800"
)


def hostile_run(*, big: int = 5_000_000) -> Trace:
    """Record a run whose every text attacks the page."""
    clock = FakeClock()
    recorder = Recorder(clock=clock, run='"><script>alert(0)</script>')
    svg = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>").decode()
    images = [
        ImageContent(svg, "image/svg+xml"),
        ImageContent('x" onerror="alert(1)', "image/png"),
        ImageContent("AAAA", 'image/png;base64,"><script>alert(1)</script>'),
    ]
    recorder.run_started(
        [Message.system(HOSTILE), Message.user(HOSTILE, images)],
        interface=HOSTILE,
        model=HOSTILE,
        servers=[HOSTILE],
        tools=[HOSTILE],
        unreached={HOSTILE: HOSTILE},
        settings={HOSTILE: HOSTILE},
        definitions={HOSTILE: (HOSTILE, HOSTILE, {HOSTILE: [HOSTILE]})},
        parent_run=HOSTILE,
    )
    nested: Any = HOSTILE
    for _ in range(60):
        nested = {HOSTILE: [nested]}
    arguments = {HOSTILE: nested, "url": "javascript:alert(1)", "n": [1, None, True, 2.5]}
    message = Message.assistant(HOSTILE, [ToolUseContent(HOSTILE, HOSTILE, arguments)])
    recorder.turn(message, model=HOSTILE, stop_reason=HOSTILE, node=HOSTILE)
    recorder.tool_called(HOSTILE, HOSTILE, arguments, server=HOSTILE, tool=HOSTILE, node=HOSTILE)
    recorder.retry(HOSTILE, HOSTILE, 2, reason=HOSTILE, call_id=HOSTILE)
    recorder.heal(HOSTILE, reason=HOSTILE)
    recorder.elicitation(HOSTILE, HOSTILE)
    recorder.approval(
        HOSTILE, HOSTILE, "edit", HOSTILE, by="person", arguments=arguments, message=HOSTILE
    )
    huge = HOSTILE + "</pre></details><script>alert(4)</script>" * (big // 41)
    shown = [(one.mime_type, one.data) for one in images]
    recorder.tool_returned(HOSTILE, huge, is_error=True, notes=[HOSTILE], images=shown)
    recorder.summary(HOSTILE, model=HOSTILE)
    recorder.failed(ValueError(HOSTILE))
    return recorder.ended("failed", final_response=HOSTILE, actual_model=HOSTILE)


def long_run(events: int) -> Trace:
    """Record a run of about this many events: turns with a call each."""
    clock = FakeClock()
    recorder = Recorder(clock=clock, run="feedface0002")
    recorder.run_started([Message.user("Count.")], interface="langchain", model="small")
    for number in range((events - 2) // 3):
        clock.seconds += 0.5
        call = ToolUseContent(f"c{number}", "count", {"from": number, "to": number + 10})
        recorder.turn(
            Message.assistant(f"Now {number}. " + "I count on, one by one. " * 8, [call]),
            model="small",
            usage=UsageMetadata(100, 10, 110, cost_usd=0.0001),
            seconds=0.5,
        )
        recorder.tool_called(call.id, "count", call.input, server="numbers", tool="count")
        clock.seconds += 0.25
        rows = {"numbers": list(range(number, number + 10)), "done": False}
        recorder.tool_returned(call.id, json.dumps(rows), is_error=number % 97 == 96)
    return recorder.ended()
