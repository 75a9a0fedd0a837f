"""Clients that record their traffic once, and run without their servers from then on."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import ElicitResult
from pydantic import SecretStr

from plait import (
    AgentConfig,
    CallbackContext,
    Callbacks,
    ConfigError,
    Message,
    ModelConfig,
    MultiServerMCPClient,
    OutcomeUnknownError,
    ProtocolError,
    Toolbox,
    get_agent,
)
from plait._support.redact import Redactor
from plait.client import Tape, TapeFault
from plait.client.config.servers import StdioServer
from plait.client.connections.session_keeper import SessionOptions
from plait.client.protocol.handshake import negotiate
from plait.client.protocol.session import McpSession
from plait.client.transports.replay import link_tape
from plait.client.transports.tape import TapeMode
from plait.client.transports.wire import Wire
from plait.errors import NotRecordedError
from plait.testing import AnthropicServer, Call, Say, ServerProcess, eventually
from plait.testing.server import build_server
from tests.nursery import entry, python

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

TESTS = Path(__file__).parents[2]
PROGRAM = str(TESTS / "servers" / "both_eras.py")
NOWHERE = {"command": "there-is-no-such-program"}
"""What a server is replaced by when its tape is played: nothing that could be started."""


async def seat(mcp_context: Any, params: Any, context: CallbackContext) -> ElicitResult:
    return ElicitResult(action="accept", content={"seat": "4a"})


async def used(server: object, order: list[str], **options: Any) -> list[Any]:
    """Call tools at once, and return their results and what they reported, sorted."""
    seen: list[Any] = []

    async def step(
        progress: float, total: float | None, message: str | None, context: CallbackContext
    ) -> None:
        seen.append([progress, total, message])

    async def log(params: Any, context: CallbackContext) -> None:
        seen.append(params.data)

    callbacks = Callbacks(on_elicitation=seat, on_progress=step, on_logging_message=log)
    async with MultiServerMCPClient({"desk": server}, callbacks=callbacks, **options) as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        results = await asyncio.gather(*(tools[name].ainvoke({}) for name in order))
        if "book" in order:
            await eventually(lambda: len(seen) >= 2)
    return [sorted(zip(order, results, strict=True)), sorted(seen, key=str)]


@pytest.mark.parametrize("protocol", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_recorded_client_runs_without_its_server_in_any_order(
    over: str, protocol: str, tmp_path: Path
) -> None:
    tape = tmp_path / "tape.jsonl"
    order = ["reserve", "era"] if protocol != "legacy" else ["book", "reserve", "choose", "era"]
    if over == "stdio":
        server = entry(PROGRAM, "both", "stdio", protocol=protocol)
        live = await used(server, order, record=tape)
    else:
        with ServerProcess([*python(), PROGRAM, "both", "http"]) as running:
            server = {"url": running.url, "protocol": protocol}
            live = await used(server, order, record=tape)
    assert dict(live[0])["reserve"] == "seat 4a"

    played = [
        await used({**NOWHERE, "protocol": protocol}, turned, replay=tape)
        for _ in range(15)
        for turned in (order, order[::-1])
    ]

    assert all(one == live for one in played)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_tape_that_the_client_of_the_sdk_has_recorded_is_played(
    over: str, era: str
) -> None:
    tape = TESTS / "data" / "tapes" / f"{over}-{era}.jsonl"
    protocol, version = ("legacy", "2025-11-25") if era == "legacy" else ("2026-07-28",) * 2
    asking = ["book", "choose", "reserve"] if era == "legacy" else ["reserve"]

    results, seen = await used({**NOWHERE, "protocol": protocol}, [*asking, "era"], replay=tape)

    assert dict(results) == {"era": version, **dict.fromkeys(asking, "seat 4a")}
    assert seen == ([[1.0, 2.0, "half"], "looking"] if era == "legacy" else [])


async def test_a_recorded_subscription_is_played_with_its_changes(tmp_path: Path) -> None:
    changed = {"method": "notifications/tools/list_changed"}
    mark = {"params": {"_meta": {"io.modelcontextprotocol/subscriptionId": None}}}
    lines = (TESTS / "data" / "tapes" / "stdio-modern.jsonl").read_text().splitlines()
    (place,) = [number for number, line in enumerate(lines) if "subscriptions/listen" in line]
    lines.insert(place + 1, json.dumps({"server": "desk", "notification": changed | mark}))
    path = tmp_path / "tape.jsonl"
    path.write_text("\n".join(lines) + "\n")
    wire = Wire("desk", Redactor(), lambda: None)
    session = McpSession(wire, SessionOptions().callbacks({}))
    server = StdioServer(command="nothing")

    async with link_tape(Tape(path, mode="none"), server, wire, nullcontext):
        await negotiate(session, "2026-07-28")
        async with session.listen(tools_list_changed=True, prompts_list_changed=False) as events:
            assert await anext(events) == changed["method"]


@pytest.mark.parametrize(
    "server",
    [{"url": "http://127.0.0.1:9/mcp"}, {"url": "ws://127.0.0.1:9"}, build_server()],
    ids=["http", "websocket", "in-process"],
)
async def test_no_server_is_contacted_whatever_its_transport(server: object, sums: Path) -> None:
    async with Toolbox({"sums": server}, replay=sums) as box:
        assert (await box.call("sums", "add_numbers", {"a": 1, "b": 2})).text == "3"


async def test_what_is_played_is_not_recorded_again(tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    before = (TESTS / "data" / "tapes" / "stdio-legacy.jsonl").read_text()
    path.write_text(before)
    tape = Tape(path, mode="new_episodes")
    server = entry(PROGRAM, "both", "stdio", protocol="legacy")

    played = await used(server, ["book"], record=tape)
    async with Toolbox({"desk": server}, record=tape) as box:
        live = await box.call("desk", "era", {"note": "new"})

    assert played == [[("book", "seat 4a")], [[1.0, 2.0, "half"], "looking"]]
    assert live.text == "2025-11-25"
    added = [json.loads(line) for line in content(path).removeprefix(before).splitlines()]
    assert [line.get("method") for line in added] == ["initialize", "initialize", "tools/call"]
    assert added[-1]["params"]["arguments"] == {"note": "new"}


async def test_a_server_in_this_process_is_recorded_too(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    async with Toolbox({"sums": build_server()}, record=tape) as box:
        live = [(await box.call("sums", "add_numbers", {"a": n, "b": 1})).text for n in range(3)]

    async with Toolbox({"sums": NOWHERE}, replay=tape) as box:
        played = [(await box.call("sums", "add_numbers", {"b": 1, "a": n})).text for n in (2, 1, 0)]

    assert played == live[::-1] == ["3", "2", "1"]


async def test_a_tape_that_cannot_be_written_costs_one_warning_and_no_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tape = Tape(tmp_path, mode="all")  # a folder, which fails as a full disk does
    async with Toolbox({"sums": build_server()}, record=tape) as box:
        live = [(await box.call("sums", "add_numbers", {"a": n, "b": 1})).text for n in range(3)]

    assert live == ["1", "2", "3"]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "cannot be written" in caplog.text


def content(tape: Path) -> str:
    return tape.read_text()


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    """Return a tape with two calls of `add_numbers`."""
    tape = tmp_path / "sums.jsonl"
    with Toolbox({"sums": build_server()}, record=tape) as box:
        for _ in range(2):
            box.call_blocking("sums", "add_numbers", {"a": 1, "b": 2})
    return tape


@pytest.mark.parametrize(
    ("server", "calls", "reason"),
    [
        ("sums", [{"a": 1, "b": 5}], r"arguments\.b is 5 \(recorded: 2\)"),
        ("sums", [{"a": 1, "b": 2}] * 3, "recorded 2 times only"),
        ("other", [{}], "no server 'other': sums"),
    ],
    ids=["the nearest differs", "too often", "another server"],
)
async def test_what_is_not_recorded_says_why(
    server: str, calls: list[dict[str, Any]], reason: str, sums: Path
) -> None:
    *recorded, missing = calls
    async with Toolbox({server: NOWHERE}, replay=sums) as box:
        for arguments in recorded:
            assert (await box.call(server, "add_numbers", arguments)).text == "3"
        with pytest.raises(NotRecordedError, match=reason):
            await box.call(server, "add_numbers", missing)


async def test_new_requests_are_added_in_the_mode_new_episodes(sums: Path) -> None:
    before = content(sums)
    tape = Tape(sums, mode="new_episodes")
    async with Toolbox({"sums": build_server()}, record=tape) as box:
        assert (await box.call("sums", "add_numbers", {"a": 1, "b": 2})).text == "3"
        assert (await box.call("sums", "add_numbers", {"a": 4, "b": 4})).text == "8"
    added = [json.loads(line) for line in content(sums).removeprefix(before).splitlines()]
    calls = [line["params"]["arguments"] for line in added if line["method"] == "tools/call"]
    assert calls == [{"a": 4, "b": 4}]

    async with Toolbox({"sums": NOWHERE}, replay=sums) as box:
        assert (await box.call("sums", "add_numbers", {"a": 4, "b": 4})).text == "8"


async def test_the_mode_once_records_only_what_has_no_tape(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "tape.jsonl"
    for server in (build_server(), NOWHERE):
        async with Toolbox({"sums": server}, record=Tape(path)) as box:
            assert (await box.call("sums", "add_numbers", {"a": 1, "b": 2})).text == "3"


def test_a_cut_recording_is_played_up_to_where_it_ends(sums: Path) -> None:
    text = content(sums)
    sums.write_text(text[: len(text) - 20])
    with Toolbox({"sums": NOWHERE}, replay=sums) as box:
        assert box.call_blocking("sums", "add_numbers", {"a": 1, "b": 2}).text == "3"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"tape": 9}\n', "version 1"),
        ('{"run": 1}\n', "version 1"),
        ("not json\n", "tape.jsonl:1"),
        ('{"tape": 1}\n{"server": "a"}\n{"server": "a", "method": "ping"}\n', "tape.jsonl:2"),
    ],
)
def test_a_file_that_is_not_a_tape_is_refused(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "tape.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        Tape(path, mode="none")


def test_wrong_options_of_tapes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no tape"):
        Toolbox({"sums": NOWHERE}, replay=tmp_path / "none.jsonl")
    with pytest.raises(ConfigError, match="not both"):
        Toolbox({"sums": NOWHERE}, record=tmp_path / "a", replay=tmp_path / "a")
    with pytest.raises(ConfigError, match="new_episodes"):
        Tape(tmp_path / "a", mode="sometimes")  # pyright: ignore[reportArgumentType]


async def test_secrets_are_neither_recorded_nor_needed_to_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = tmp_path / "tape.jsonl"
    monkeypatch.setenv("DESK_TOKEN", "hunter2-canary")
    server = entry(PROGRAM, "both", "stdio", env={"DESK_TOKEN": "${DESK_TOKEN}"})
    async with Toolbox({"desk": server}, record=tape) as box:
        await box.call("desk", "era", {"note": "hunter2-canary"})
    assert "canary" not in content(tape)

    async with Toolbox({"desk": server}, replay=tape) as box:
        assert (await box.call("desk", "era", {"note": "hunter2-canary"})).text

    monkeypatch.delenv("DESK_TOKEN")
    async with Toolbox({"desk": server, "other": NOWHERE}, replay=tape) as box:
        assert await box.tools("desk")


async def test_faults_can_be_laid_over_a_tape(sums: Path) -> None:
    def played(*faults: TapeFault) -> Toolbox:
        return Toolbox({"sums": NOWHERE}, replay=Tape(sums, mode="none", faults=faults))

    call = {"a": 1, "b": 2}
    async with played(TapeFault(kind="cut")) as box:
        result = await box.call("sums", "add_numbers", call)
        assert (result.text, result.attempts) == ("3", 2)
    async with played(TapeFault(kind="error", match="sums/add_*", times=None)) as box:
        with pytest.raises(ProtocolError, match="laid over the tape"):
            await box.call("sums", "add_numbers", call)
    async with played(TapeFault(kind="hang")) as box:
        with pytest.raises(TimeoutError):
            await box.call("sums", "add_numbers", call, timeout_seconds=0.2)


@pytest.mark.parametrize("mode", ["none", "new_episodes"])
async def test_a_call_that_may_have_run_is_not_played_again(mode: TapeMode, tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    server = entry(PROGRAM, "both", "stdio")
    async with Toolbox({"desk": server}, record=tape) as box:
        await box.call("desk", "era")
    cut = Tape(tape, mode=mode, faults=[TapeFault(kind="cut")])
    async with Toolbox({"desk": server}, replay=cut) as box:
        with pytest.raises(OutcomeUnknownError):
            await box.call("desk", "era")


async def test_an_answer_that_differs_from_the_recorded_one_is_a_miss(tmp_path: Path) -> None:
    tape = tmp_path / "tape.jsonl"
    server = entry(PROGRAM, "both", "stdio", protocol="legacy")
    await used(server, ["book"], record=tape)

    async def other(mcp_context: Any, params: Any, context: CallbackContext) -> ElicitResult:
        return ElicitResult(action="decline")

    callbacks = Callbacks(on_elicitation=other)
    servers = {"desk": {**NOWHERE, "protocol": "legacy"}}
    async with MultiServerMCPClient(servers, callbacks=callbacks, replay=tape) as client:
        (book,) = await client.get_tools(include=["book"])
        with pytest.raises(NotRecordedError, match="the answer to elicitation/create differs"):
            await book.ainvoke({})


async def test_any_client_can_be_served_from_a_tape(sums: Path) -> None:
    program = StdioServerParameters(
        command=sys.executable, args=["-m", "plait.cli", "replay", "serve", str(sums)]
    )
    async with Client(stdio_client(program)) as client:
        assert "add_numbers" in [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("add_numbers", {"a": 1, "b": 2})
        assert result.structured_content == {"result": 3}


def test_the_fixture_records_a_passing_test_once(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["plait.testing.fixtures"]')
    pytester.makepyfile(
        """
        from plait import Toolbox
        from plait.testing.server import build_server

        def sum_with(server, tape):
            with Toolbox({"sums": server}, record=tape) as box:
                return box.call_blocking("sums", "add_numbers", {"a": 1, "b": 2}).text

        def test_good(plait_tape):
            server = {"command": "nothing"} if plait_tape.plays else build_server()
            assert sum_with(server, plait_tape) == "3"

        def test_bad(plait_tape):
            assert sum_with(build_server(), plait_tape) == "4"
        """
    )
    arguments = ("-p", "no:cacheprovider")
    pytester.runpytest_inprocess(*arguments).assert_outcomes(passed=1, failed=1)
    (tape,) = pytester.path.glob("tapes/*/*.jsonl")
    recorded = tape.read_bytes()
    pytester.runpytest_inprocess(*arguments).assert_outcomes(passed=1, failed=1)
    assert (tape.name, tape.read_bytes()) == ("test_good.jsonl", recorded)
    pytester.runpytest_inprocess("--plait-record=none", *arguments).assert_outcomes(
        passed=1, errors=1
    )


async def test_an_agent_runs_on_a_tape(sums: Path) -> None:
    script = [Say(calls=(Call("add_numbers", {"a": 1, "b": 2}),)), Say("It is 3.")]
    with AnthropicServer(script) as api:
        agent = get_agent(
            ModelConfig(
                id="clerk",
                interface="claude_tool",
                model_name="claude-haiku-5-5",
                anthropic_base_url=api.url,
                anthropic_api_key=SecretStr("any"),
            )
        )
        result = await agent.arun(
            [Message.user("1 + 2?")],
            mcp_servers={"sums": NOWHERE},
            config=AgentConfig(tool_options={"replay": sums}),
        )

    assert result.final_response == "It is 3."
    assert "Tool Message" in result.raw_trace
    assert "\n3\n" in result.raw_trace
