"""Servers whose tools are deferred: their processes start when they are called, and not before."""

from __future__ import annotations

from collections.abc import Sequence
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
from plait.client.catalog.lock.entries import LockedServer, Lockfile, write_lockfile
from plait.client.catalog.lock.identity import identity_of
from plait.testing import eventually
from tests.integration.agents.counting import Counting, counting
from tests.integration.agents.helpers import agent_of, answers_of, one_by_one, question, tool_call

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


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
    """Say how many lists are on the disk."""
    return len(list(cache.iterdir())) if cache.exists() else 0


async def names_of(box: Toolbox) -> list[str]:
    return [tool.name for tool in await box.tools()]


async def test_a_server_is_started_to_list_its_tools_once_and_then_only_to_be_called(
    server: Counting, cache: Path
) -> None:
    async with Toolbox({"s": server.config}, defer=True) as box:
        assert await names_of(box) == ["read_a", "b", "change"]
        assert box.status()["s"].pid is not None
    assert server.lists() == 1
    assert stored(cache) == 1

    async with Toolbox({"s": server.config}, defer=True) as box:
        assert await names_of(box) == ["read_a", "b", "change"]
        assert [tool.name for tool in await box.search_tools("change")] == ["change"]
        assert box.status()["s"].pid is None
        assert server.lists() == 1

        assert (await box.call("s", "b")).text == "b for -"
        assert box.status()["s"].pid is not None
    assert server.lists() == 2


async def test_a_list_that_one_user_gets_is_not_stored_for_others(
    server: Counting, cache: Path
) -> None:
    shop = {**server.config, "env": lambda run: {"SHOP_USER": run["user"]}}
    async with Toolbox({"s": shop}, defer=True) as box:
        for user in ("ann", "bob"):
            assert [tool.name for tool in await box.tools(run={"user": user})]

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
            running: list[dict[str, int | None]] = []

            def watched(turn: Sequence[Any] | str) -> Any:
                def answer(_: Any) -> Any:
                    status = client.status()
                    running.append({name: status[name].pid for name in servers})
                    return turn

                return answer

            agent, model = agent_of(list(map(watched, script)), MCPToolsMiddleware(client))  # pyright: ignore[reportArgumentType]
            _, answer = answers_of(await agent.ainvoke(question()))

    assert answer.text == "b for -"
    assert model.bound[1] == ["search_tools", "b"]
    assert running[0] == running[1] == {"s": None, "other": None}
    assert running[2]["s"] is not None
    assert running[2]["other"] is None
    assert other.lists() == 1


async def test_a_call_is_checked_against_what_the_server_lists_now(server: Counting) -> None:
    async with Toolbox({"s": server.config}, defer=True) as box:
        await box.tools()
    (server.folder / "tools").write_text("read_a c")

    async with Toolbox({"s": server.config}, defer=True) as box:
        assert await names_of(box) == ["read_a", "b", "change"]
        gone = await box.call("s", "b")
        assert gone.is_error
        assert await names_of(box) == ["read_a", "c", "change"]
    async with Toolbox({"s": server.config}, defer=True) as box:
        assert await names_of(box) == ["read_a", "c", "change"]
        assert box.status()["s"].pid is None


async def test_filters_and_overrides_hold_for_what_was_stored(server: Counting) -> None:
    async with Toolbox({"s": server.config}, defer=True) as box:
        await box.tools()

    overrides = {"b": {"name": "better", "description": "Do it."}}
    async with Toolbox(
        {"s": server.config}, defer=True, exclude=["read_a"], tool_overrides=overrides
    ) as box:
        assert await names_of(box) == ["better", "change"]
        assert box.status()["s"].pid is None
        assert (await box.call("s", "b")).text == "b for -"


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
            assert box.status()["s"].pid is None


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, 0), ({"defer": False}, 0), ({"defer": True, "cache": False}, 1)],
)
async def test_a_server_starts_at_once_where_nothing_is_deferred_or_kept(
    server: Counting, cache: Path, options: dict[str, Any], count: int
) -> None:
    for _ in range(2):
        async with Toolbox({"s": server.config}, **options) as box:
            await box.tools()
            assert box.status()["s"].pid is not None

    assert stored(cache) == count


async def test_a_list_for_credentials_of_a_run_is_not_stored(tmp_path: Path, cache: Path) -> None:
    with counting(tmp_path / "server", "http", "--era", "modern") as server:
        config = {**server.config, "headers": lambda run: {"authorization": "Bearer canary"}}
        async with Toolbox({"s": config}, defer=True) as box:
            assert await names_of(box)

    assert stored(cache) == 0


async def test_refreshing_asks_the_server(server: Counting) -> None:
    async with Toolbox({"s": server.config}, defer=True) as box:
        await box.tools()
    async with Toolbox({"s": server.config}, defer=True) as box:
        await box.tools(refresh=True)
        assert box.status()["s"].pid is not None


async def test_one_server_may_be_deferred_by_its_own_word(server: Counting) -> None:
    config = {"s": {**server.config, "defer": True}}
    async with Toolbox(config) as box:
        await box.tools()
    async with Toolbox(config) as box:
        assert await names_of(box) == ["read_a", "b", "change"]
        assert box.status()["s"].pid is None


async def test_a_lockfile_is_held_against_what_was_stored_and_against_the_server(
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
        assert await names_of(box) == ["read_a", "b", "change"]
        assert box.lock_report().ok
        assert box.status()["s"].pid is None
        with pytest.raises(PermissionDeniedError):
            await box.call("s", "b")
        assert await names_of(box) == ["read_a", "change"]
    assert server.calls() == 0


async def test_instructions_are_not_asked_for_before_a_server_is_called(server: Counting) -> None:
    config = {"s": {**server.config, "trust_instructions": True}}
    async with Toolbox(config, defer=True) as box:
        await box.tools()
    async with MultiServerMCPClient(config, defer=True) as client:
        agent, _ = agent_of(one_by_one(), MCPToolsMiddleware(client))
        await agent.ainvoke(question())
        assert client.status()["s"].pid is None


async def test_a_server_that_cannot_list_its_tools_any_more_fails_its_first_call(
    tmp_path: Path, server: Counting
) -> None:
    async with Toolbox({"s": server.config}, defer=True) as box:
        await box.tools()
    tools = server.folder / "tools"
    tools.rename(tmp_path / "tools")  # now it dies when it is asked for them

    async with Toolbox({"s": server.config}, defer=True) as box:
        assert await names_of(box) == ["read_a", "b", "change"]
        with pytest.raises(PlaitError):
            await box.call("s", "b")
        assert box.status()["s"].sessions > 0
