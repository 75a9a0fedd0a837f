"""What servers announce by themselves reaches the callbacks of a client."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from plait import (
    CallbackContext,
    Callbacks,
    ConfigError,
    MultiServerMCPClient,
    Toolbox,
    load_mcp_tools,
)
from plait.client import ServerInfo
from plait.testing import eventually
from plait.testing.faults.fault_options import Run, parse
from plait.testing.faults.fault_server import build_server
from tests.integration.callbacks.conftest import Servers
from tests.integration.callbacks.server_events import KINDS, LEGACY, Notebook, notifying_server
from tests.servers import everything_stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

LISTS = ("tools", "prompts", "resources")
ERAS = ("legacy", "modern")


def list_callbacks(notes: Notebook) -> dict[str, Any]:
    names = [f"on_{kind}_list_changed" for kind in LISTS]
    return {name: notes.on(name) for name in names}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_was_killed_is_heard_again(kind: str) -> None:
    notes = Notebook()
    with notifying_server(kind) as server:
        async with Toolbox(
            {"server": server.config},
            **list_callbacks(notes),
            on_initialized=notes.on("on_initialized"),
        ) as box:
            await box.tools()
            await asyncio.to_thread(server.kill, box)
            await box.ping("server")
            # A modern server on HTTP has no session that a restart could end.
            assert len(notes.facts()) == (1 if kind == "http modern" else 2)

            async def heard() -> bool:
                await box.call("server", "announce", {"what": "prompts"})
                told = notes.params("on_prompts_list_changed")
                # A modern server on HTTP may be told of before: something went unheard meanwhile.
                return bool(told if kind in LEGACY else [one for one in told if one is not None])

            await eventually(heard, timeout_seconds=15)


async def test_a_modern_server_is_listened_to_as_soon_as_it_is_connected(servers: Servers) -> None:
    notes = Notebook()
    async with MultiServerMCPClient(
        servers("modern"), on_prompts_list_changed=notes.on("prompts")
    ) as client:
        await client.ready()
        handle = await client.get_client("server")

        async def heard() -> bool:
            await handle.call_tool("announce", {"what": "prompts"})
            return bool(notes.told)

        await eventually(heard)


@pytest.mark.parametrize("era", ERAS)
async def test_each_new_session_is_told_with_what_the_server_says_of_itself(
    era: str, servers: Servers
) -> None:
    notes = Notebook()
    async with MultiServerMCPClient(
        servers(era), on_initialized=notes.on("on_initialized")
    ) as client:
        assert notes.told == []
        await client.ready()
        await client.toolbox.reconnect("server")
        await client.ready()
        facts = (await client.get_server_info())["server"]

    assert isinstance(facts, ServerInfo)
    assert notes.facts() == [facts, facts]


async def test_what_an_older_server_here_takes_back_and_says_of_roots_is_told() -> None:
    notes = Notebook()
    here = {"server": build_server(Run(parse([]))), "protocol": "legacy"}
    async with Toolbox(
        {"servers": {"server": here}},
        on_cancelled=notes.on("on_cancelled"),
        on_roots_list_changed=notes.on("on_roots_list_changed"),
    ) as box:
        await box.call("server", "announce", {"what": "cancelled"})
        await box.call("server", "announce", {"what": "roots"})
        await eventually(lambda: notes.names() == ["on_cancelled", "on_roots_list_changed"])
        assert not (await box.call("server", "echo", {"text": "on"})).is_error

    (cancelled,) = notes.params("on_cancelled")
    assert (cancelled.request_id, cancelled.reason) == (7, "no longer needed")


@pytest.mark.parametrize("era", ERAS)
async def test_log_messages_and_progress_are_told_by_options_of_the_client(
    era: str, servers: Servers
) -> None:
    notes = Notebook()
    steps: list[tuple[float, float | None, str | None, CallbackContext]] = []
    config: Any = {
        "mcpServers": servers(era),
        "onMessage": notes.on("on_message"),
        "onProgress": lambda *told: steps.append(told),  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    }
    async with MultiServerMCPClient(config) as client:
        tools = {tool.name: tool for tool in await client.get_tools()}
        await tools["log"].ainvoke({"level": "warning", "text": "careful"})
        await tools["sleep_progress"].ainvoke({"steps": 1, "delay": 0})
        await eventually(lambda: bool(notes.told and steps))

    ((_, params, context),) = notes.told
    assert (params.level, params.data) == ("warning", "careful")
    assert context == CallbackContext(server_name="server", tool_name="log")
    assert steps == [
        (1, 1, "step 1 of 1", CallbackContext(server_name="server", tool_name="sleep_progress"))
    ]


async def test_a_toolbox_tells_of_log_messages_and_of_progress_of_every_call(
    servers: Servers,
) -> None:
    notes = Notebook()
    steps: list[tuple[str, str | None]] = []
    async with Toolbox(
        servers(),
        on_message=notes.on("on_message"),
        on_progress=lambda _, __, message, context: steps.append((message, context.tool_name)),  # pyright: ignore[reportArgumentType]
    ) as box:
        await box.call("server", "log", {"level": "info", "text": "hello"})
        own: list[float] = []
        await box.call(
            "server",
            "sleep_progress",
            {"steps": 1, "delay": 0},
            on_progress=lambda progress, _, __: own.append(progress),
        )
        await eventually(lambda: bool(notes.told and steps and own))

    assert [params.data for params in notes.params("on_message")] == ["hello"]
    assert steps == [("step 1 of 1", "sleep_progress")]


async def test_both_callbacks_for_log_messages_are_told(servers: Servers) -> None:
    notes = Notebook()

    async def logged(params: Any, context: CallbackContext) -> None:
        notes.told.append(("on_logging_message", params, context))

    callbacks = Callbacks(on_logging_message=logged, on_message=notes.on("on_message"))
    async with MultiServerMCPClient(servers(), callbacks=callbacks) as client:
        (log,) = await client.get_tools(include="log")
        await log.ainvoke({"level": "info", "text": "hello"})
        await eventually(lambda: sorted(notes.names()) == ["on_logging_message", "on_message"])


async def test_a_callback_may_stand_in_callbacks_and_be_asynchronous(servers: Servers) -> None:
    heard = asyncio.Event()

    async def changed(params: object, context: CallbackContext) -> None:
        del params
        await asyncio.sleep(0)
        assert context.server_name == "server"
        heard.set()

    callbacks = Callbacks(on_tools_list_changed=changed)
    async with MultiServerMCPClient(servers(), callbacks=callbacks) as client:
        (grow,) = await client.get_tools(include="grow")
        await grow.ainvoke({})
        async with asyncio.timeout(10):
            await heard.wait()
        assert "grown_1" in {tool.name for tool in await client.get_tools()}


def test_a_callback_that_is_given_twice_is_refused() -> None:
    notes = Notebook()

    with pytest.raises(ConfigError, match="on_cancelled"):
        MultiServerMCPClient(
            {},
            callbacks=Callbacks(on_cancelled=notes.on("one")),
            on_cancelled=notes.on("two"),
        )


async def test_tools_loaded_from_a_connection_bring_their_callbacks(servers: Servers) -> None:
    notes = Notebook()
    callbacks = Callbacks(on_initialized=notes.on("on_initialized"))

    tools = await load_mcp_tools(
        None, connection=servers()["server"], server_name="lab", callbacks=callbacks
    )

    assert tools
    assert [context.server_name for _, _, context in notes.told] == ["lab"]


async def test_a_callback_that_fails_fails_nothing_else(
    servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    notes = Notebook()

    def fail(params: object, context: CallbackContext) -> None:
        raise RuntimeError("the callback is wrong")

    async def fail_later(params: object, context: CallbackContext) -> None:
        raise RuntimeError("the callback is wrong")

    with caplog.at_level(logging.ERROR, "plait.client.connections"):
        async with Toolbox(
            servers(),
            on_initialized=fail,
            on_tools_list_changed=fail_later,
            on_prompts_list_changed=notes.on("prompts"),
        ) as box:
            await box.call("server", "announce", {"what": "tools"})
            await box.call("server", "announce", {"what": "prompts"})
            await eventually(lambda: notes.names() == ["prompts"])

    failed = [record.exc_info for record in caplog.records if record.exc_info]
    assert [str(one[1]) for one in failed] == ["the callback is wrong"] * 2


MARK: ContextVar[str] = ContextVar("mark", default="")


def test_callbacks_run_where_the_client_was_made_while_that_loop_runs(servers: Servers) -> None:
    where: list[tuple[str, str]] = []

    def changed(params: object, context: CallbackContext) -> None:
        del params, context
        where.append((threading.current_thread().name, MARK.get()))

    async def made() -> MultiServerMCPClient:
        MARK.set("made here")
        client = MultiServerMCPClient(servers(), on_tools_list_changed=changed)
        (announce,) = await client.get_tools(include="announce")
        await announce.ainvoke({"what": "tools"})
        await eventually(lambda: len(where) == 1)
        return client

    client = asyncio.run(made())
    (announce,) = client.get_tools_blocking(include="announce")
    announce.invoke({"what": "tools"})
    asyncio.run(eventually(lambda: len(where) == 2))
    client.close()

    assert where == [(threading.current_thread().name, "made here"), ("plait", "made here")]


async def test_callbacks_of_an_entered_client_run_in_the_context_of_the_block(
    servers: Servers,
) -> None:
    marks: list[str] = []
    client = Toolbox(servers(), on_initialized=lambda _, __: marks.append(MARK.get()))
    MARK.set("entered")
    async with client:
        await client.ready()

    assert marks == ["entered"]


async def test_sessions_of_single_users_are_told_under_the_name_of_the_server(
    servers: Servers,
) -> None:
    notes = Notebook()
    async with MultiServerMCPClient(
        servers("modern"),
        on_initialized=notes.on("on_initialized"),
        on_tools_list_changed=notes.on("on_tools_list_changed"),
    ) as client:
        await client.get_tools()
        (announce,) = await client.get_tools(include="announce", headers={"x-user": "ann"})
        await announce.ainvoke({"what": "tools"})
        # Both sessions listen, and the server tells all who do.
        await eventually(lambda: len(notes.told) == 4)

    assert notes.names().count("on_initialized") == 2
    assert {context.server_name for _, _, context in notes.told} == {"server"}


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_is_heard_does_not_idle_away(era: str, servers: Servers) -> None:
    notes = Notebook()
    config = servers(era, idle_timeout=0.2)
    async with (
        Toolbox(config, on_tools_list_changed=notes.on("on_tools_list_changed")) as hearing,
        Toolbox(config) as deaf,
    ):
        await hearing.tools()
        await deaf.tools()
        await eventually(lambda: deaf.status()["server"].state == "idle")
        assert hearing.status()["server"].state == "ready"


async def test_server_everything_announces_its_resources_and_logs() -> None:
    notes = Notebook()
    async with Toolbox(
        {"server": everything_stdio_config()},
        on_initialized=notes.on("on_initialized"),
        on_tools_list_changed=notes.on("on_tools_list_changed"),
        on_message=notes.on("on_message"),
        on_resources_updated=notes.on("on_resources_updated"),
    ) as box:
        uri = next(str(one.item.uri) for one in await box.list_resources())
        async with box.watch_resource("server", uri) as updates:
            await box.call("server", "toggle-subscriber-updates")
            async with asyncio.timeout(20):
                update = await anext(aiter(updates))
            await box.call("server", "toggle-subscriber-updates")
        await eventually(lambda: "on_resources_updated" in notes.names())

    assert update.uri == uri
    assert str(notes.params("on_resources_updated")[0].uri) == uri
    assert "on_initialized" in notes.names()
