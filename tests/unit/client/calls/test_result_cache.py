"""Remembering what read-only tools answered."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from mcp_types import TextContent

from plait.client.calls.outcome import ToolResult
from plait.client.calls.result_cache import ResultCache, ResultCaching
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.tool import Tool
from plait.client.connections.credentials import CallerCredentials
from plait.errors import ConfigError


class HandClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = 100.0

    def monotonic(self) -> float:
        return self.time

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time, UTC)

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


READ = Tool(server="s", wire_name="read", name="read", annotations={"read_only_hint": True})
WRITE = Tool(server="s", wire_name="write", name="write")


def call(tool: str = "read", access: CallerCredentials | None = None, **arguments: Any) -> ToolCall:
    return ToolCall(server="s", tool=tool, arguments=arguments, access=access)


def result(text: str, *, is_error: bool = False) -> ToolResult:
    content = (TextContent(text=text),)
    return ToolResult(server="s", tool="read", is_error=is_error, content=content)


def test_the_same_call_is_answered_from_memory() -> None:
    cache = ResultCache(ResultCaching())
    cache.put(call(a=1, b=2), READ, result("kept"))

    assert cache.get(call(b=2, a=1), READ) == result("kept")
    assert cache.get(call(a=1, b=3), READ) is None


def test_an_answer_is_forgotten_in_time() -> None:
    clock = HandClock()
    cache = ResultCache(ResultCaching(ttl_seconds=10), clock=clock)
    cache.put(call(), READ, result("kept"))

    clock.time += 9.9
    assert cache.get(call(), READ) is not None
    clock.time += 0.1
    assert cache.get(call(), READ) is None


def test_failures_and_tools_that_change_something_are_not_remembered() -> None:
    cache = ResultCache(ResultCaching())
    cache.put(call(), READ, result("failed", is_error=True))
    cache.put(call("write"), WRITE, result("done"))
    cache.put(call("unlisted"), None, result("who knows"))

    assert cache.get(call(), READ) is None
    assert cache.get(call("write"), WRITE) is None
    assert cache.get(call("unlisted"), None) is None


def test_credentials_do_not_see_what_others_were_told() -> None:
    cache = ResultCache(ResultCaching())
    ann, bob = CallerCredentials.of({"X-User": "ann"}), CallerCredentials.of({"X-User": "bob"})
    cache.put(call(access=ann), READ, result("for ann"))

    assert cache.get(call(access=bob), READ) is None
    assert cache.get(call(), READ) is None
    assert cache.get(call(access=ann), READ) == result("for ann")


def test_a_server_can_be_forgotten() -> None:
    cache = ResultCache(ResultCaching())
    cache.put(call(), READ, result("kept"))

    cache.forget("another")
    assert cache.get(call(), READ) is not None
    cache.forget("s")
    assert cache.get(call(), READ) is None


def test_the_oldest_answer_makes_room() -> None:
    cache = ResultCache(ResultCaching(max_entries=2))
    for number in range(3):
        cache.put(call(n=number), READ, result(str(number)))

    assert [cache.get(call(n=number), READ) is not None for number in range(3)] == [
        False,
        True,
        True,
    ]


def test_arguments_that_are_not_json_are_not_remembered() -> None:
    cache = ResultCache(ResultCaching())
    cache.put(call(a=object()), READ, result("kept"))

    assert cache.get(call(a=object()), READ) is None


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (True, 300.0),
        (5, 5.0),
        ({"read": 7}, 7.0),
        ({"s/read": 8, "*": 1}, 8.0),
        ({"re*": 9}, 9.0),
        ({"other": 9}, 0.0),
        (ResultCaching(ttl_seconds=3), 3.0),
    ],
)
def test_settings_say_for_how_long(given: object, seconds: float) -> None:
    caching = ResultCaching.of(given)

    assert caching is not None
    assert caching.seconds_for(READ) == seconds


@pytest.mark.parametrize("given", [None, False])
def test_nothing_is_remembered_unless_asked_for(given: object) -> None:
    assert ResultCaching.of(given) is None


@pytest.mark.parametrize("given", ["yes", -1, [1]])
def test_other_settings_are_refused(given: object) -> None:
    with pytest.raises(ConfigError, match="result_cache"):
        ResultCaching.of(given)
