"""A rule believes the hints of the list that the call meets, and an approval those it showed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plait import PermissionDeniedError, Policy, Toolbox
from plait.client import ApprovalRequest, PolicyRule
from plait.testing import eventually
from tests.integration.lock.shops import TOOLS, Shop, tools_with
from tests.integration.lock.shops import shop as running_shop

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

READ_ONLY = Policy(
    rules=[
        PolicyRule("allow", annotation="read-only"),
        PolicyRule("allow", tool="poke"),
        PolicyRule("allow", tool="wait"),
    ],
    default="deny",
)
HARMFUL = tools_with(find={"annotations": {"destructiveHint": True}})
WAIT = {"name": "wait", "inputSchema": {"type": "object"}}
MANY = [{"name": f"more_{number}", "inputSchema": {"type": "object"}} for number in range(500)]
FIND = ("shop", "find", {"query": "tea"})


async def announce(box: Toolbox, shop: Shop) -> None:
    shop.write(HARMFUL)
    await box.call("shop", "poke")


async def restart(box: Toolbox, shop: Shop) -> None:
    shop.write(HARMFUL)
    pid = box.status().servers["shop"].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: box.status().servers["shop"].pid != pid)


@pytest.mark.parametrize("change", [announce, restart])
async def test_a_tool_that_is_not_read_only_any_more_is_not_allowed_as_such(
    tmp_path: Path, change: Callable[[Toolbox, Shop], Any]
) -> None:
    with running_shop(tmp_path, "stdio") as shop:
        async with Toolbox({"shop": shop.config}, policy=READ_ONLY) as box:
            for _ in range(3):
                await box.call(*FIND)
            await change(box, shop)
            with pytest.raises(PermissionDeniedError):
                await box.call(*FIND)

        assert shop.calls().count("find") == 3


@pytest.mark.parametrize("change", [announce, restart])
async def test_an_approval_of_a_harmless_tool_is_not_one_of_a_harmful_tool(
    tmp_path: Path, change: Callable[[Toolbox, Shop], Any]
) -> None:
    asked: list[ApprovalRequest] = []
    policy = Policy(rules=[PolicyRule("allow", tool="poke")], default="ask")

    async def approve(request: ApprovalRequest) -> bool:
        asked.append(request)
        if len(asked) == 1:
            await change(box, shop)  # while the person thinks
        return len(asked) == 1

    with running_shop(tmp_path, "stdio") as shop:
        async with Toolbox({"shop": shop.config}, policy=policy, on_approval=approve) as box:
            with pytest.raises(PermissionDeniedError):
                await box.call(*FIND)

        assert shop.calls().count("find") == 0
    assert [dict(one.annotations) for one in asked] == [
        {"read_only_hint": True},
        {"destructive_hint": True},
    ]


@pytest.mark.parametrize("guard", ["policy", "lockfile"])
async def test_a_change_that_is_announced_behind_the_list_is_not_missed(
    tmp_path: Path, guard: str
) -> None:
    """Many tools are converted in slices, and the announcement is read between two of them."""
    with running_shop(tmp_path, "stdio") as shop:
        shop.write([*TOOLS, *MANY])
        await shop.lock()
        shop.write([*TOOLS, *MANY], then={"version": "1", "tools": [*HARMFUL, *MANY]})
        async with Toolbox({"shop": shop.config}, **guarded_by(guard, shop)) as box:
            with pytest.raises(PermissionDeniedError):
                await box.call(*FIND)

        assert shop.calls() == []


@pytest.mark.parametrize("guard", ["policy", "lockfile"])
async def test_a_change_is_not_missed_by_a_call_that_waits_for_its_turn(
    tmp_path: Path, guard: str
) -> None:
    with running_shop(tmp_path, "stdio") as shop:
        shop.write([*TOOLS, WAIT])
        await shop.lock()
        servers = {"shop": {**shop.config, "max_concurrency": 1}}
        async with Toolbox(servers, **guarded_by(guard, shop)) as box:
            await box.call(*FIND)
            first = asyncio.ensure_future(box.call("shop", "wait"))
            await eventually(lambda: box.status().servers["shop"].in_flight == 1)
            second = asyncio.ensure_future(box.call(*FIND))
            await eventually(lambda: box.status().servers["shop"].in_flight == 2)
            shop.write([*HARMFUL, WAIT])
            shop.release()
            await first
            with pytest.raises(PermissionDeniedError):
                await second

        assert shop.calls() == ["find", "wait"]


def guarded_by(guard: str, shop: Shop) -> dict[str, Any]:
    return {"policy": READ_ONLY} if guard == "policy" else {"lockfile": shop.lockfile}


async def test_the_hints_of_a_server_do_not_count_for_its_backup(tmp_path: Path) -> None:
    policy = Policy(rules=[PolicyRule("ask", server="east")], default="allow")
    (tmp_path / "west").mkdir()

    async def approve(_: ApprovalRequest) -> bool:
        east.file.unlink()  # it ends, and cannot be started again
        return True

    with running_shop(tmp_path, "stdio") as east, running_shop(tmp_path / "west", "stdio") as west:
        west.write(HARMFUL)
        servers = {"east": east.config, "west": west.config}
        options: dict[str, Any] = {"policy": policy, "on_approval": approve}
        async with Toolbox(servers, fallbacks={"east": "west"}, **options) as box:
            result = await box.call("east", *FIND[1:])

        assert result.server == "west"
        assert (east.calls(), west.calls()) == ([], ["find"])
