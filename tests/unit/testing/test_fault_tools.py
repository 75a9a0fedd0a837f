"""The fault server's tools, resources and prompts, in process and in both protocol eras."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Unpack

import anyio
import pytest
from mcp import Client, MCPError, types
from mcp.client.subscriptions import ToolsListChanged

from plait.testing import eventually
from plait.testing.faults.fault_options import FaultOptions, Run, flags_from_options, parse
from plait.testing.faults.fault_server import PNG, WAV, build_server

pytestmark = pytest.mark.anyio

Mode = Literal["auto", "legacy"]
MakeClient = Callable[..., Client]


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> Mode:
    return request.param


@pytest.fixture
def client(mode: Mode, tmp_path: Path) -> MakeClient:
    def make(client_options: dict[str, Any] | None = None, **options: Unpack[FaultOptions]):
        settings = parse([f"--state-dir={tmp_path}", *flags_from_options(options)])
        return Client(build_server(Run(settings)), mode=mode, **(client_options or {}))

    return make


async def text(client: Client, tool: str, **arguments: object) -> str:
    block = (await client.call_tool(tool, arguments)).content[0]
    assert isinstance(block, types.TextContent)
    return block.text


async def test_everything_is_described_and_hints_say_what_may_be_repeated(
    client: MakeClient,
) -> None:
    async with client() as c:
        tools = (await c.list_tools()).tools
        resources = (await c.list_resources()).resources
        templates = (await c.list_resource_templates()).resource_templates
        prompts = (await c.list_prompts()).prompts

    assert all(thing.description for thing in [*tools, *resources, *templates, *prompts])
    assert [str(one.uri) for one in resources] == ["test://static"]
    assert [one.uri_template for one in templates] == ["test://item/{id}"]
    assert [one.name for one in prompts] == ["greet"]
    hints = {
        tool.name: (hint.read_only_hint, hint.destructive_hint, hint.idempotent_hint)
        for tool in tools
        if (hint := tool.annotations) is not None
    }
    assert hints["add"] == (True, None, None)
    assert hints["pay"] == (False, True, False)
    assert hints["get_and_die"] == (True, None, True)


async def test_tools_answer_fail_and_write_down_payments(
    client: MakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_CANARY", "sings")
    async with client() as c:
        for tool, arguments, answer in (
            ("echo", {"text": "hé"}, "hé"),
            ("counter", {}, "1"),
            ("counter", {}, "2"),
            ("env", {"name": "PLAIT_CANARY"}, "sings"),
            ("big", {"size_bytes": 100_000}, "x" * 100_000),
            ("pay", {"amount": 5}, "paid 5"),
            ("pay", {"amount": 7}, "paid 7"),
        ):
            assert await text(c, tool, **arguments) == answer
        for tool, arguments, content in (
            ("add", {"a": 2, "b": 3}, {"result": 5}),
            ("headers", {}, {}),
            ("structured", {}, {"city": "Oslo", "degrees": -3.5}),
        ):
            assert (await c.call_tool(tool, arguments)).structured_content == content
        failures = [
            await c.call_tool(tool, arguments)
            for tool, arguments in (
                *(("fail", {"text": "no milk"}), ("crash", {})),
                ("env", {"name": "PLAIT_NO_CANARY"}),
            )
        ]
        with pytest.raises(MCPError) as caught:
            await c.call_tool("protocol_error", {"code": -32050})
        with pytest.raises(RuntimeError, match="bad_structured"):
            await c.call_tool("bad_structured")

    assert (tmp_path / "ledger").read_text() == "5\n7\n"
    assert [failed.is_error for failed in failures] == [True] * 3
    assert "no milk" in failures[0].model_dump_json()
    assert "the tool crashed" not in failures[1].model_dump_json()
    assert (caught.value.code, caught.value.data) == (-32050, {"code": -32050})


async def test_every_kind_of_content_can_be_had(client: MakeClient) -> None:
    async with client() as c:
        image = (await c.call_tool("image")).content[1]
        audio = (await c.call_tool("audio")).content[1]
        kinds = [block.type for block in (await c.call_tool("links")).content]
        item = (await c.read_resource("test://item/4")).contents[0]
        prompt = (await c.get_prompt("greet", {"name": "Ada"})).messages[0].content
        name = {"name": "name", "value": "a"}
        completed = await c.complete(types.PromptReference(name="greet"), name)
        with pytest.raises(MCPError):
            await c.read_resource("test://item/missing")

    assert isinstance(image, types.ImageContent)
    assert isinstance(audio, types.AudioContent)
    assert (image.mime_type, audio.mime_type) == ("image/png", "audio/wav")
    assert (PNG[:4], WAV[:4]) == (b"\x89PNG", b"RIFF")
    assert kinds == ["resource_link", "resource", "resource"]
    assert isinstance(item, types.TextResourceContents)
    assert item.text == "item 4"
    assert isinstance(prompt, types.TextContent)
    assert prompt.text == "Say hello to Ada."
    assert completed.completion.values == ["Ada", "Alan"]


async def test_parallel_and_cancelled_calls_are_counted_and_progress_is_reported(
    client: MakeClient,
) -> None:
    seen: list[tuple[float, float | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total))

    async with client() as c:
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(c.call_tool, "slow", {"seconds": 0.1})
        assert await text(c, "max_parallel") == "5"
        await c.call_tool("sleep_progress", {"steps": 3, "delay": 0}, progress_callback=on_progress)
        with pytest.raises(MCPError):
            await c.call_tool("hang", read_timeout_seconds=0.05)

        async def is_counted() -> bool:
            return await text(c, "cancelled_calls") == "1"

        await eventually(is_counted)
    assert seen == [(1, 3), (2, 3), (3, 3)]


async def test_a_new_tool_is_announced(client: MakeClient, mode: Mode) -> None:
    changed, listening = anyio.Event(), anyio.Event()

    async def on_message(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changed.set()

    async def listen(c: Client) -> None:
        async with c.listen(tools_list_changed=True) as events:
            listening.set()
            async for event in events:
                assert event == ToolsListChanged()
                changed.set()

    async with client({"message_handler": on_message}) as c, anyio.create_task_group() as tasks:
        capability = c.server_capabilities.tools
        assert capability is not None
        assert capability.list_changed
        if mode == "auto":
            tasks.start_soon(listen, c)
            await listening.wait()
        with anyio.fail_after(5):
            assert await text(c, "grow") == "grown_1"
            await changed.wait()
        assert await text(c, "grown_1") == "grown_1"
        tasks.cancel_scope.cancel()


async def test_what_clients_offer_is_used(client: MakeClient) -> None:
    logged: list[object] = []

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        logged.append(params.data)

    async def list_roots(_: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///project")])  # pyright: ignore[reportArgumentType]

    callbacks = {"logging_callback": on_log, "list_roots_callback": list_roots}
    async with client({"log_level": "info", **callbacks}) as c:
        await text(c, "log", level="warning", text="careful")
        assert await text(c, "roots") == "file:///project"
        assert await text(c, "touch", uri="test://static") == "touched test://static"

    assert logged == ["careful"]


@pytest.mark.parametrize("mode", ["legacy"])
async def test_a_modern_only_server_refuses_the_handshake(client: MakeClient) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with client(modern_only=True):
            pass

    error = caught.value.exceptions[0]
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, MCPError)
    assert error.code == types.UNSUPPORTED_PROTOCOL_VERSION


async def test_handshakes_leave_a_line_and_durable_tools_need_a_folder(
    client: MakeClient, mode: Mode, tmp_path: Path
) -> None:
    for _ in range(2):
        async with client():
            pass

    kinds = [line.split()[0] for line in (tmp_path / "sessions").read_text().splitlines()]
    assert kinds == [{"auto": "discover", "legacy": "initialize"}[mode]] * 2
    async with Client(build_server(Run(parse([]))), mode=mode) as c:
        result = await c.call_tool("pay", {"amount": 1})
    assert (result.is_error, "--state-dir" in result.model_dump_json()) == (True, True)
