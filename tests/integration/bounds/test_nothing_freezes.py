"""No schema, pattern or number of tools of a server keeps the event loop from its other tasks."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plait import InvalidArgumentsError, OutcomeUnknownError, Toolbox
from plait.langchain import MultiServerMCPClient
from tests.integration.bounds.loop_stalls import LoopStalls
from tests.integration.bounds.memory import MemoryGrowth
from tests.nursery import entry
from tests.soak.stalls import measure

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

_SERVER = str(Path(__file__).parents[2] / "servers" / "raw" / "raw_echo.py")
_FLOOD = str(Path(__file__).parents[2] / "servers" / "raw" / "flood_stdio.py")
_MOST_SECONDS = 0.1

Json = dict[str, Any]


def _tool(name: str, schema: Json, **more: Any) -> Json:
    return {"name": name, "inputSchema": {"type": "object", **schema}, **more}


def _doubling(keyword: str, last: Json, levels: int = 18) -> Json:
    """Return a schema in which each definition uses the next one twice."""
    definitions = {
        f"d{level}": {keyword: [{"$ref": f"#/$defs/d{level + 1}"}] * 2} for level in range(levels)
    }
    return {
        "properties": {"a": {"$ref": "#/$defs/d0"}},
        "$defs": {**definitions, f"d{levels}": last},
    }


@asynccontextmanager
async def _box(folder: Path, *tools: Json, **options: Any) -> AsyncGenerator[Toolbox]:
    listed = folder / "tools.json"
    listed.write_text(json.dumps(tools))
    async with Toolbox({"s": entry(_SERVER, str(listed))}, **options) as box:
        await box.ping("s")  # so that nothing is imported later
        yield box


async def test_a_pattern_that_backtracks_without_end_is_checked_in_linear_time(
    tmp_path: Path,
) -> None:
    evil = {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    async with _box(tmp_path, _tool("t", evil)) as box, LoopStalls() as stalls:
        with pytest.raises(InvalidArgumentsError):
            await box.call("s", "t", {"a": "a" * 28 + "!"}, timeout_seconds=3)
    assert stalls.worst_seconds < _MOST_SECONDS


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
async def test_references_that_double_at_each_level_are_given_up_and_the_call_is_sent(
    keyword: str, tmp_path: Path
) -> None:
    schema = _doubling(keyword, {"type": "integer", "minimum": 1})
    async with _box(tmp_path, _tool("t", schema)) as box, LoopStalls() as stalls:
        result = await box.call("s", "t", {"a": "x"}, timeout_seconds=10)
    assert json.loads(result.text) == {"a": "x"}
    assert stalls.worst_seconds < _MOST_SECONDS


async def test_an_output_schema_that_doubles_is_given_up_with_a_note(tmp_path: Path) -> None:
    show = _tool("show", {}, outputSchema={"type": "object", **_doubling("anyOf", {"minimum": 1})})
    sent = {"content": [], "structuredContent": {"a": 0}}
    async with _box(tmp_path, show) as box, LoopStalls() as stalls:
        result = await box.call("s", "show", {"result": sent}, timeout_seconds=10)
    assert any("not checked" in note for note in result.notes)
    assert stalls.worst_seconds < _MOST_SECONDS


def _plain(number: int) -> Json:
    return _tool(f"tool_{number}", {"properties": {"a": {"type": "string"}}})


def _odd(number: int) -> Json:
    schema = {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
    return _tool(f"tool {number}", schema, description="a\u200bb", icons=[{"src": "x"}])


@pytest.mark.parametrize(("name", "lines"), [("chatter", 10_000), ("noise", 20_000)])
async def test_many_small_lines_are_read_in_slices(name: str, lines: int) -> None:
    async with Toolbox({"s": entry(_FLOOD)}) as box:
        await box.call("s", "good")
        async with LoopStalls() as stalls:
            result = await box.call("s", name, {"lines": lines}, timeout_seconds=50)
    assert result.text == "good"
    assert stalls.worst_seconds < _MOST_SECONDS


@pytest.mark.parametrize("kind", ["many", "large"])
async def test_requests_whose_answers_are_not_read_end_the_session(kind: str) -> None:
    arguments = {"lines": 50_000} if kind == "many" else {"lines": 60, "megabytes": 1}
    async with Toolbox({"s": entry(_FLOOD)}) as box:
        await box.call("s", "good")
        with MemoryGrowth() as growth:
            async with LoopStalls() as stalls:
                with pytest.raises(OutcomeUnknownError, match="without reading the answers"):
                    await box.call("s", "requests", arguments, timeout_seconds=50)
        assert (await box.call("s", "good")).text == "good"
    assert stalls.worst_seconds < _MOST_SECONDS
    assert growth.worst_bytes < 32_000_000 + 96_000_000


@pytest.mark.parametrize("make", [_plain, _odd])
async def test_of_fifty_thousand_tools_the_first_are_listed_in_slices(
    make: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with _box(tmp_path, *map(make, range(50_000))) as box, LoopStalls() as stalls:
        tools = await box.tools()
    assert len(tools) == 10_000
    warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert any("limits.tools" in one.getMessage() for one in warnings)
    assert len(warnings) < 50
    assert stalls.worst_seconds < _MOST_SECONDS


@pytest.mark.parametrize("name", ["50,000 tools", "text of escapes", "allowed objects"])
async def test_what_httpx2_receives_is_parsed_beside_the_loop(name: str) -> None:
    assert await measure("httpx2", name)


@pytest.mark.parametrize(
    ("transport", "name"),
    [
        ("http", "20,000 prompts"),
        ("stdio", "30,000 resources"),
        ("sse", "30,000 resource templates"),
        ("events", "a prompt of 60,000 messages"),
        ("websocket", "a resource of 60,000 parts"),
        ("httpx2", "50 tools with recursive definitions"),
        ("events", "100,000 notifications"),
        ("events", "short lines in gzip"),
        ("httpx2", "short lines in gzip"),
        ("http", "bytes behind gzip"),
    ],
)
async def test_prompts_resources_and_floods_are_read_beside_the_loop(
    transport: str, name: str
) -> None:
    assert await measure(transport, name)


async def test_a_tool_with_an_endless_schema_is_left_out_with_a_note(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wide = {"properties": {f"a{number}": {"type": "string"} for number in range(20_000)}}
    tools = (_tool("wide", wide), _tool("good", {}))
    async with _box(tmp_path, *tools) as box, LoopStalls() as stalls:
        assert [tool.name for tool in await box.tools()] == ["good"]
    assert any("limits.schema_entries" in one.getMessage() for one in caplog.records)
    assert stalls.worst_seconds < _MOST_SECONDS
    async with _box(tmp_path, *tools, limits={"schema_entries": 500_000}) as box:
        assert [tool.name for tool in await box.tools()] == ["wide", "good"]


async def test_schemas_for_models_are_made_in_bounded_time(tmp_path: Path) -> None:
    pieces = [
        {"patternProperties": {f"^a{n}": {}}, "properties": {f"b{n}": {}}} for n in range(800)
    ]
    listed = tmp_path / "tools.json"
    hostile = (_tool("merged", {"allOf": pieces}), _tool("doubled", _doubling("allOf", {})))
    listed.write_text(json.dumps(hostile))
    servers: Any = {"s": {**entry(_SERVER, str(listed)), "transport": "stdio"}}
    async with MultiServerMCPClient(servers) as client:
        for profile in ("openai", "openai_strict", "anthropic", "gemini"):
            for tool in await client.get_tools(profile=profile):
                async with LoopStalls() as stalls:
                    assert tool.args is not None
                assert stalls.worst_seconds < 1.5 * _MOST_SECONDS, (tool.name, profile)


@pytest.mark.parametrize(
    "result",
    [
        {"content": [{"type": "text", "text": "a\u200bb"}] * 5_000},
        {"content": [], "structuredContent": {f"a{n}": [n, "a\u200bb"] for n in range(50_000)}},
    ],
    ids=["blocks", "structured"],
)
async def test_a_result_of_many_parts_is_converted_beside_the_loop(
    result: Json, tmp_path: Path
) -> None:
    tools, file = tmp_path / "tools.json", tmp_path / "result.json"
    tools.write_text(json.dumps([_tool("load", {"properties": {"path": {"type": "string"}}})]))
    file.write_text(json.dumps(result))
    server: Any = {"transport": "stdio", **entry(_SERVER, str(tools))}
    async with MultiServerMCPClient({"s": server}) as client:
        (load,) = await client.get_tools()
        # No result is a list; and now everything is imported.
        assert "not JSON-RPC" in await load.ainvoke({"path": str(tools)})
        call = {"type": "tool_call", "id": "1", "name": "load", "args": {"path": str(file)}}
        async with LoopStalls() as stalls:
            message = await load.ainvoke(call)
    assert message.status == "success"
    assert stalls.worst_seconds < _MOST_SECONDS
