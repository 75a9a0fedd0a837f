"""Settings mean what they say: what is switched off, misspelled or out of range is named."""

from __future__ import annotations

import logging
import math
import os
import signal
from typing import Any

import pytest

from plait import ConfigError, ConnectError, MCPClientError, MultiServerMCPClient, Toolbox
from plait.testing import eventually
from plait.testing.fixtures import StartFaultServer
from tests.nursery import send_signal, stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

NO_SECONDS: list[Any] = [math.nan, math.inf, True, -1, "5"]


async def test_without_reconnecting_the_error_says_what_happened() -> None:
    server = {**stdio_config(), "reconnect": {"enabled": False}}
    async with Toolbox({"one": server}) as box:
        await box.call("one", "echo", {"text": "x"})
        process = box.status()["one"].pid
        assert process is not None
        send_signal(process, signal.SIGKILL)
        await eventually(lambda: box.status()["one"].state == "failed")
        known = box.status()["one"].error
        with pytest.raises(ConnectError) as caught:
            await box.call("one", "echo", {"text": "x"})
        await box.reconnect("one")
        assert (await box.call("one", "echo", {"text": "x"})).text == "x"

    assert str(known) == str(caught.value)
    assert "killed" in str(known)
    assert "`reconnect` is switched off" in str(known)


async def test_a_log_level_is_taken_in_any_case_and_a_wrong_one_changes_nothing() -> None:
    async with MultiServerMCPClient({"one": stdio_config()}) as client:
        echo = next(tool for tool in await client.get_tools() if tool.name == "echo")
        for arguments in (["WARNING"], ["one", "Info"]):
            await client.set_logging_level(*arguments)
            assert await echo.ainvoke({"text": "x"}) == "x"
        for arguments, kind, text in (
            (["loud"], ConfigError, "log_level"),
            (["two", "info"], ConfigError, "no server is called 'two'"),
            ([], TypeError, "server_or_level"),
        ):
            with pytest.raises(kind, match=text):
                await client.set_logging_level(*arguments)
        assert await echo.ainvoke({"text": "x"}) == "x"


async def test_a_log_level_for_all_servers_is_not_refused_for_one_that_is_down() -> None:
    servers = {"down": {"url": "http://127.0.0.1:9/mcp"}, "one": stdio_config(legacy_only=True)}
    async with MultiServerMCPClient(servers) as client:
        await client.get_tools()
        await client.set_logging_level("error")
        with pytest.raises(ConnectError):
            await client.set_logging_level("down", "error")


@pytest.mark.parametrize("seconds", NO_SECONDS)
async def test_what_is_no_number_of_seconds_is_refused(seconds: Any) -> None:
    async with MultiServerMCPClient({"one": stdio_config()}) as client:
        echo = next(tool for tool in await client.get_tools() if tool.name == "echo")
        with pytest.raises(ConfigError, match="timeout"):
            await echo.ainvoke({"text": "x"}, {"configurable": {"timeout": seconds}})
        with pytest.raises(ConfigError, match="timeout_seconds"):
            await client.toolbox.call("one", "echo", {"text": "x"}, timeout_seconds=seconds)
        with pytest.raises(ConfigError, match="timeout_seconds"):
            await client.ready(seconds)
        with pytest.raises(ConfigError, match="wait"):
            await client.get_tools(wait=seconds)


TYPOS: list[tuple[str, dict[str, Any]]] = [
    ("exclude", {"exclude": ["ecoh"]}),
    ("include", {"include": ["ecoh", "add"]}),
    ("tool_timeouts", {"tool_timeouts": {"ecoh": 3}}),
    ("tool_overrides", {"tool_overrides": {"ecoh": {"description": "x"}}}),
]


@pytest.mark.parametrize(("option", "settings"), TYPOS)
async def test_a_misspelled_tool_in_an_option_is_reported_with_the_nearest(
    caplog: pytest.LogCaptureFixture, option: str, settings: dict[str, Any]
) -> None:
    async with MultiServerMCPClient({"one": stdio_config()}, **settings) as client:
        await client.get_tools()
        await client.get_tools()

    assert _warnings(caplog) == [
        f"there is no tool 'ecoh', which `{option}` names (did you mean 'echo'?)"
    ]


@pytest.mark.parametrize("option", ["include", "exclude"])
async def test_a_misspelled_tool_is_reported_for_one_list_and_for_one_server(
    caplog: pytest.LogCaptureFixture, option: str
) -> None:
    async with MultiServerMCPClient({"one": stdio_config()}) as client:
        selection: dict[str, Any] = {option: ["ecoh"]}
        await client.get_tools(**selection)
    async with MultiServerMCPClient({"one": {**stdio_config(), option: ["ecoh"]}}) as client:
        await client.get_tools()

    text = f"there is no tool 'ecoh', which `{option}` names (did you mean 'echo'?)"
    assert _warnings(caplog) == [text, text]


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


@pytest.mark.parametrize(
    "options",
    [{"roots": 5}, {"roots": [5]}, {"callbacks": {}}, {"callbacks": 5}, {"profile": "nope"}],
)
def test_an_option_of_the_wrong_type_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        MultiServerMCPClient({"one": stdio_config()}, **options)


@pytest.mark.parametrize("options", [{"headers": 5}, {"headers": "x"}, {"profile": "nope"}])
async def test_an_argument_of_the_wrong_type_is_refused(options: dict[str, Any]) -> None:
    async with MultiServerMCPClient({"one": stdio_config()}) as client:
        with pytest.raises(ConfigError, match=next(iter(options))):
            await client.get_tools(**options)


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500])
async def test_every_refusal_of_a_connection_is_an_error_of_the_client(
    fault_server: StartFaultServer, status: int
) -> None:
    server = fault_server("http", http_status=status)
    one = {"url": server.url, "reconnect": {"enabled": False}}
    async with MultiServerMCPClient({"one": one}) as client:
        with pytest.raises(MCPClientError):
            await client.get_tools()


async def test_a_program_that_ends_at_once_is_an_error_of_the_client() -> None:
    one = {"command": os.devnull, "reconnect": False}
    async with MultiServerMCPClient({"one": one}) as client:
        with pytest.raises(MCPClientError):
            await client.get_tools()
