"""Remembering what read-only tools answered."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import TextContent

from plait.client.calls.outcome import ToolResult
from plait.client.calls.result_cache import ResultCache, ResultCaching
from plait.client.calls.tool_call import ToolCall
from plait.client.catalog.tool import Tool
from plait.client.config.servers import StdioServer
from plait.client.connections.credentials import CallerCredentials
from plait.errors import ConfigError
from tests.clock import FakeClock

pytestmark = pytest.mark.anyio


READ = Tool(server="s", wire_name="read", name="read", annotations={"read_only_hint": True})
WRITE = Tool(server="s", wire_name="write", name="write")


def call(tool: str = "read", access: CallerCredentials | None = None, **arguments: Any) -> ToolCall:
    return ToolCall(server="s", tool=tool, arguments=arguments, access=access)


def result(text: str, *, is_error: bool = False) -> ToolResult:
    content = (TextContent(text=text),)
    return ToolResult(server="s", tool="read", is_error=is_error, content=content)


async def get(cache: ResultCache, call: ToolCall, tool: Tool | None = READ) -> str | None:
    slot = await cache.slot_of(call, tool, StdioServer(command="x"))
    cached = slot and cache.get(slot)
    return cached and cached.text


async def put(
    cache: ResultCache, call: ToolCall, text: str, tool: Tool | None = READ, *, fails: bool = False
) -> None:
    slot = await cache.slot_of(call, tool, StdioServer(command="x"))
    if slot is not None:
        cache.put(slot, result(text, is_error=fails))


async def test_the_same_call_is_answered_from_memory() -> None:
    cache = ResultCache(ResultCaching())
    await put(cache, call(a=1, b=2), "kept")

    assert await get(cache, call(b=2, a=1)) == "kept"
    assert await get(cache, call(a=1, b=3)) is None


async def test_an_answer_is_forgotten_in_time() -> None:
    clock = FakeClock(100)
    cache = ResultCache(ResultCaching(ttl_seconds=10), clock=clock)
    await put(cache, call(), "kept")

    clock.seconds += 9.9
    assert await get(cache, call()) == "kept"
    clock.seconds += 0.1
    assert await get(cache, call()) is None


async def test_failures_and_tools_that_change_something_are_not_remembered() -> None:
    cache = ResultCache(ResultCaching())
    await put(cache, call(), "failed", fails=True)
    await put(cache, call("write"), "done", WRITE)
    await put(cache, call("unlisted"), "who knows", None)
    await put(cache, call(a=object()), "no JSON")

    assert await get(cache, call()) is None
    assert await get(cache, call("write"), WRITE) is None
    assert await get(cache, call("unlisted"), None) is None
    assert await get(cache, call(a=object())) is None


async def test_credentials_do_not_see_what_others_were_told() -> None:
    cache = ResultCache(ResultCaching())
    ann, bob = CallerCredentials.of({"X-User": "ann"}), CallerCredentials.of({"X-User": "bob"})
    await put(cache, call(access=ann), "for ann")

    assert await get(cache, call(access=bob)) is None
    assert await get(cache, call()) is None
    assert await get(cache, call(access=ann)) == "for ann"


async def test_a_server_can_be_forgotten() -> None:
    cache = ResultCache(ResultCaching())
    await put(cache, call(), "kept")
    begun = await cache.slot_of(call(), READ, StdioServer(command="x"))

    cache.forget("another")
    assert await get(cache, call()) == "kept"
    cache.forget("s")
    assert begun is not None
    cache.put(begun, result("computed before the change"))
    assert await get(cache, call()) is None


@pytest.mark.parametrize(("room", "kept"), [(2, [None, "1", "2"]), (0, [None, None, None])])
async def test_the_oldest_answer_makes_room(room: int, kept: list[str | None]) -> None:
    cache = ResultCache(ResultCaching(max_entries=room))
    for number in range(3):
        await put(cache, call(n=number), str(number))

    assert [await get(cache, call(n=number)) for number in range(3)] == kept


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
