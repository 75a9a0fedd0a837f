"""The log of messages: every transport, without secrets, and nothing when off."""

from __future__ import annotations

import logging
import re
from collections import Counter
from pathlib import Path
from typing import Any, cast

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

from plait import MultiServerMCPClient, Toolbox
from plait._support.logs import UNCUT, WIRE
from plait._support.redact import Redactor
from plait.client import Tape
from plait.client.transports.tape import TapeMode
from plait.client.transports.wire_log import make_wire
from plait.langchain.tools.tool import MCPTool
from tests.integration.connections.targets import TARGETS
from tests.nursery import entry

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

LINE = re.compile(
    r"(?P<way>[→←]) server(?: #(?P<id>\S+))? (?P<method>\S+)"
    r"(?: (?P<ms>[\d.]+) ms)? (?P<size>[\d.]+ k?B) (?P<text>.*)"
)
TESTS = Path(__file__).parents[2]
ONE_EACH = ["stdio modern", "stdio legacy", "http modern", "http legacy", "sse legacy"]


def messages(caplog: pytest.LogCaptureFixture) -> list[dict[str, str]]:
    """Return the parts of every logged message."""
    texts = [record.getMessage() for record in caplog.records if record.name == WIRE]
    found = [LINE.fullmatch(text) for text in texts]
    assert None not in found, texts
    return [match.groupdict() for match in found if match is not None]


@pytest.mark.parametrize("target", [*ONE_EACH, "websocket modern"])
async def test_each_message_is_shown_once_with_what_is_known_of_it(
    target: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, WIRE)
    with TARGETS[target]() as server:
        async with Toolbox({"server": server.config}) as box:
            await box.call("server", server.tool, dict(server.arguments))

    seen = messages(caplog)
    calls = [one for one in seen if one["method"] == "tools/call"]
    assert [one["way"] for one in calls] == ["→", "←"]
    asked, answered = calls
    assert asked["id"] == answered["id"]
    assert asked["ms"] is None
    assert float(answered["ms"]) > 0
    assert '"name":"add"' in asked["text"]
    assert "5" in answered["text"]
    opening = "initialize" if "legacy" in target else "server/discover"
    assert [one["way"] for one in seen if one["method"] == opening] == ["→", "←"]
    assert [one["way"] for one in seen if one["method"] == "tools/list"] == ["→", "←"]
    # Each request has one line, and so has its response.
    both = Counter((one["way"], one["id"]) for one in seen if one["id"])
    assert set(both.values()) == {1}


@pytest.mark.parametrize("mode", ["none", "new_episodes"])
async def test_what_a_tape_plays_is_shown_too(
    mode: TapeMode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, WIRE)
    path = tmp_path / "tape.jsonl"
    path.write_text((TESTS / "data" / "tapes" / "stdio-legacy.jsonl").read_text())
    program = str(TESTS / "servers" / "both_eras.py")
    server = entry(program, "both", "stdio", protocol="legacy")
    async with Toolbox({"desk": server}, replay=Tape(path, mode=mode)) as box:
        await box.call("desk", "era")

    texts = [record.getMessage() for record in caplog.records if record.name == WIRE]
    calls = [text for text in texts if " tools/call " in text]
    assert [text[0] for text in calls] == ["→", "←"]
    assert "2025-11-25" in calls[1]


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_server_in_this_process_shows_its_messages_too(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, WIRE)
    server = MCPServer("here")

    @server.tool()
    async def work(ctx: Context) -> str:
        await ctx.report_progress(1, 2)
        return "done"

    config: Any = {"server": server, "protocol": era}
    async with MultiServerMCPClient({"mcpServers": {"server": config}}) as client:
        (tool,) = await client.get_tools()
        await tool.ainvoke({})
        await tool.ainvoke({})

    seen = messages(caplog)
    assert [one["way"] for one in seen if one["method"] == "tools/call"] == ["→", "←"] * 2
    assert all("done" in one["text"] for one in seen if one["ms"] and one["method"] == "tools/call")


async def test_requests_of_the_server_and_their_answers_are_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, WIRE)

    async def answer(context: object, params: object) -> Any:
        from mcp_types import ElicitResult

        return ElicitResult(action="accept", content={"text": "Ada"})

    with TARGETS["stdio legacy"]() as server:
        async with Toolbox({"server": server.config}, on_elicitation=lambda _: answer) as box:
            await box.call("server", "ask", {"question": "Who?"})

    asked = [one for one in messages(caplog) if one["method"] == "elicitation/create"]
    assert [one["way"] for one in asked] == ["←", "→"]
    assert "Ada" in asked[1]["text"]
    assert asked[1]["ms"] is not None


@pytest.mark.parametrize("target", ["stdio modern", "http modern"])
async def test_secrets_are_hidden_and_long_messages_are_cut(
    target: str, caplog: pytest.LogCaptureFixture
) -> None:
    with TARGETS[target]() as server:
        config = {**server.config, "env": {"API_TOKEN": "hunter2-hunter2"}}
        if "url" in config:
            del config["env"]
            config["headers"] = {"X-Api-Key": "hunter2-hunter2"}
        text = "hunter2-hunter2" + "x" * 5000
        for level, shown in ((logging.DEBUG, False), (UNCUT, True)):
            caplog.clear()
            caplog.set_level(level, WIRE)
            async with Toolbox({"server": config}) as box:
                await box.call("server", "echo", {"text": text})
            calls = [one for one in messages(caplog) if one["method"] == "tools/call"]
            assert len(calls) == 2
            assert ["x" * 5000 in one["text"] for one in calls] == [shown, shown]
            assert all("hunter2" not in one["text"] for one in messages(caplog))
            assert all(one["size"].startswith("5.") for one in calls)


async def test_a_request_without_an_answer_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, WIRE)
    with TARGETS["stdio modern"]() as server:
        async with MultiServerMCPClient({"server": server.config}) as client:
            tools = {tool.name: cast("MCPTool", tool) for tool in await client.get_tools()}
            await tools["echo"].ainvoke({"text": "first"})
            caplog.clear()
            await tools["hang"].with_timeout(0.3).ainvoke({})

    texts = [record.getMessage() for record in caplog.records if record.name == WIRE]
    cancelled = re.compile(r"→ server #\d+ tools/call \d+ ms cancelled ")
    assert len([one for one in texts if cancelled.fullmatch(one)]) == 1, texts


async def test_a_session_that_is_not_shown_has_the_plain_wire() -> None:
    with TARGETS["stdio modern"]() as server:
        async with Toolbox({"server": server.config}) as box:
            await box.tools("server")
            session = box.lifecycle.runtime.pool.connections["server"].keeper.ready_session
            assert session is not None
            assert session.wire.taps == []
            assert type(session.wire.sender).__module__ == "plait.client.transports.stdio"


@pytest.mark.parametrize(("own", "is_logged"), [(logging.NOTSET, False), (logging.DEBUG, True)])
def test_messages_are_logged_only_if_their_own_logger_is_set(own: int, is_logged: bool) -> None:
    root, logger = logging.getLogger(), logging.getLogger(WIRE)
    before = root.level, logger.level
    root.setLevel(logging.DEBUG)
    logger.setLevel(own)
    try:
        wire = make_wire("server", Redactor(()), lambda: None)
    finally:
        root.setLevel(before[0])
        logger.setLevel(before[1])

    assert len(wire.taps) == is_logged
