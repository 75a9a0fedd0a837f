"""Servers whose tools are deferred: their processes start when they are called, and not before."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from plait import (
    MCPToolsMiddleware,
    MultiServerMCPClient,
    PermissionDeniedError,
    PlaitError,
    Toolbox,
)
from plait.client.catalog.lock import LockedServer, Lockfile, identity_of, write_lockfile
from plait.testing import eventually
from tests.integration.agents.counting import Counting, counting
from tests.integration.agents.helpers import agent_of, answers_of, one_by_one, question, tool_call

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

LISTED = ["read_a", "b", "change"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that is empty."""
    monkeypatch.setenv("PLAIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tools"


@pytest.fixture
def server(tmp_path: Path) -> Counting:
    """A server that runs when a client starts it."""
    with counting(tmp_path / "server", "stdio", "--era", "legacy") as server:
        return server


def stored(cache: Path) -> int:
    """Count the lists on the disk."""
    return len(list(cache.iterdir())) if cache.exists() else 0


async def names_of(box: Toolbox, **run: Any) -> list[str]:
    return [tool.name for tool in await box.tools(**run)]


def is_started(box: Any, name: str = "s") -> bool:
    return box.status()[name].pid is not None


@asynccontextmanager
async def reopened(server: Counting) -> AsyncGenerator[Toolbox]:
    """Open a toolbox with deferred tools for the second time: their list is stored."""
    async with Toolbox({"s": server.config}, defer=True) as box:
        await box.tools()
    async with Toolbox({"s": server.config}, defer=True) as box:
        yield box


async def test_a_server_is_started_to_list_its_tools_once_and_then_only_to_be_called(
    server: Counting, cache: Path
) -> None:
    async with reopened(server) as box:
        assert (server.lists(), stored(cache)) == (1, 1)
        assert await names_of(box) == LISTED
        assert [tool.name for tool in await box.search_tools("change")] == ["change"]
        assert not is_started(box)
        assert server.lists() == 1

        assert (await box.call("s", "b")).text == "b for -"
        assert is_started(box)
    assert server.lists() == 2


OVERRIDES = {"b": {"name": "better", "description": "Do it."}}


@pytest.mark.parametrize(
    ("settings", "options", "refresh", "names", "starts", "lists"),
    [
        (
            {},
            {"defer": True, "exclude": ["read_a"], "tool_overrides": OVERRIDES},
            False,
            ["better", "change"],
            False,
            1,
        ),
        ({}, {"defer": True}, True, LISTED, True, 1),
        ({"defer": True}, {}, False, LISTED, False, 1),
        ({"trust_instructions": True}, {"defer": True}, False, LISTED, False, 1),
        ({}, {}, False, LISTED, True, 0),
        ({}, {"defer": False}, False, LISTED, True, 0),
        ({}, {"defer": True, "cache": False}, False, LISTED, True, 1),
    ],
    ids=[
        "filters and overrides hold for what was stored",
        "refreshing asks the server",
        "one server is deferred by its own word",
        "instructions are not fetched before a call",
        "nothing is deferred by default",
        "nothing is deferred",
        "nothing is cached",
    ],
)
async def test_a_second_client_starts_a_server_only_if_it_must(
    server: Counting,
    cache: Path,
    settings: dict[str, Any],
    options: dict[str, Any],
    refresh: bool,
    names: list[str],
    starts: bool,
    lists: int,
) -> None:
    config = {"s": {**server.config, **settings}}
    for is_second in (False, True):
        async with Toolbox(config, **options) as box:
            assert await names_of(box, refresh=refresh and is_second) == names
            assert is_started(box) is (starts or not is_second)
    assert stored(cache) == lists
    async with MultiServerMCPClient(config, **options) as client:
        agent, _ = agent_of(one_by_one(), MCPToolsMiddleware(client))
        await agent.ainvoke(question())
        assert is_started(client) is (starts and not refresh)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_list_for_the_user_of_a_run_is_not_stored(
    tmp_path: Path, cache: Path, transport: str
) -> None:
    with counting(tmp_path / "server", transport, "--era", "modern") as server:
        key = "env" if transport == "stdio" else "headers"
        config = {**server.config, key: lambda run: {"X-Shop-User": run["user"]}}
        async with Toolbox({"s": config}, defer=True) as box:
            for user in ("ann", "bob"):
                assert await names_of(box, run={"user": user})

    assert server.lists() == 2
    assert stored(cache) == 0


async def test_an_agent_searches_without_starting_anything_and_starts_only_what_it_calls(
    tmp_path: Path, server: Counting
) -> None:
    with counting(tmp_path / "other", "stdio", "--era", "modern") as other:
        servers = {"s": server.config, "other": {**other.config, "exclude": ["b", "change"]}}
        async with Toolbox(servers, defer=True) as box:
            await box.tools()
        async with MultiServerMCPClient(servers, defer=True) as client:
            script = one_by_one(tool_call("search_tools", query="b"), tool_call("b"))
            started: list[list[str]] = []

            def watched(turn: Sequence[Any] | str) -> Any:
                def answer(_: Any) -> Any:
                    started.append([name for name in servers if is_started(client, name)])
                    return turn

                return answer

            agent, model = agent_of(list(map(watched, script)), MCPToolsMiddleware(client))  # pyright: ignore[reportArgumentType]
            _, answer = answers_of(await agent.ainvoke(question()))

    assert answer.text == "b for -"
    assert model.bound[1] == ["search_tools", "b"]
    assert started == [[], [], ["s"]]
    assert other.lists() == 1


async def test_a_call_is_checked_against_what_the_server_lists_now(server: Counting) -> None:
    async with reopened(server) as box:
        (server.folder / "tools").write_text("read_a c")
        assert await names_of(box) == LISTED
        assert (await box.call("s", "b")).is_error
        assert await names_of(box) == ["read_a", "c", "change"]
    async with Toolbox({"s": server.config}, defer=True) as box:
        assert await names_of(box) == ["read_a", "c", "change"]
        assert not is_started(box)


async def test_a_change_that_is_announced_takes_the_list_off_the_disk(
    tmp_path: Path, cache: Path
) -> None:
    with counting(tmp_path / "server", "stdio", "--era", "legacy", "--announce") as server:
        async with Toolbox({"s": server.config}, defer=True) as box:
            await box.tools()
            assert stored(cache) == 1
            await box.call("s", "change", {"tools": "d"})
            await eventually(lambda: stored(cache) == 0)

            assert await names_of(box) == ["d", "change"]
            assert stored(cache) == 1
        async with Toolbox({"s": server.config}, defer=True) as box:
            assert await names_of(box) == ["d", "change"]
            assert not is_started(box)


async def test_a_lockfile_is_compared_with_what_was_stored_and_with_the_server(
    server: Counting, tmp_path: Path
) -> None:
    lockfile = tmp_path / "plait.lock.json"
    async with Toolbox({"s": server.config}, defer=True) as box:
        tools = await box.tools()
        facts = await box.server_info("s")
        identity = identity_of(box.config.servers["s"], facts.identity, tmp_path)
    write_lockfile(Lockfile({"s": LockedServer.of(identity, tools)}), lockfile)
    (server.folder / "tools").write_text("read_a c")

    async with Toolbox({"s": server.config}, defer=True, lockfile=lockfile) as box:
        assert await names_of(box) == LISTED
        assert box.lock_report().ok
        assert not is_started(box)
        with pytest.raises(PermissionDeniedError):
            await box.call("s", "b")
        assert await names_of(box) == ["read_a", "change"]
    assert server.calls() == 0


async def test_a_server_that_cannot_list_its_tools_any_more_fails_its_first_call(
    tmp_path: Path, server: Counting
) -> None:
    async with reopened(server) as box:
        (server.folder / "tools").rename(tmp_path / "tools")  # now it dies when it lists them
        assert await names_of(box) == LISTED
        with pytest.raises(PlaitError):
            await box.call("s", "b")
        assert box.status()["s"].sessions > 0
