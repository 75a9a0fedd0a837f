"""Whole results are kept for a while, for those they belong to."""

from __future__ import annotations

import re

import mcp_types as types
import pytest

from plait.client.calls.outcome import ToolResult
from plait.client.calls.result_budget import OWN_SERVER, READ_MORE, ResultLimiter
from plait.client.calls.tool_call import RunIdentity, ToolCall
from plait.client.config.budgets import Limit, ResultBudget
from plait.client.connections.credentials import CallerCredentials
from plait.errors import ResultExpiredError
from tests.clock import FakeClock

pytestmark = pytest.mark.anyio

TEXT = "x" * 10_000


def limiter_of(keep_bytes: int = 100_000, clock: FakeClock | None = None) -> ResultLimiter:
    limit = Limit(tokens=1000)
    budget = ResultBudget(default=limit, keep_seconds=100, keep_bytes=keep_bytes)
    return ResultLimiter(budget, {}, clock=clock)


def call_of(user: str = "", thread: str | None = None, handle: str | None = None) -> ToolCall:
    access = CallerCredentials.of({"Authorization": user}) if user else None
    run = RunIdentity(key="run", thread=thread)
    if handle is None:
        return ToolCall(server="s", tool="t", access=access, run=run)
    arguments = {"handle": handle}
    return ToolCall(server=OWN_SERVER, tool=READ_MORE, arguments=arguments, access=access, run=run)


async def kept_by(limiter: ResultLimiter, call: ToolCall | None = None) -> str:
    block = types.TextContent(text=TEXT)
    result = ToolResult(server="s", tool="t", is_error=False, content=(block,))
    shorter = await limiter.limited(result, call or call_of())
    assert shorter.full_result is not None
    return shorter.full_result


def is_kept(limiter: ResultLimiter, handle: str) -> bool:
    try:
        return limiter.full_result(handle).text == TEXT
    except ResultExpiredError:
        return False


async def test_a_result_is_kept_for_its_time_after_it_was_last_read() -> None:
    clock = FakeClock()
    limiter = limiter_of(clock=clock)
    handle = await kept_by(limiter)

    clock.seconds = 99
    assert is_kept(limiter, handle)
    clock.seconds = 198
    await limiter.answer_read_more(call_of(handle=handle))
    clock.seconds = 297
    assert limiter.server_of(handle) == "s"  # this is no reading
    clock.seconds = 298
    assert limiter.server_of(handle) is None
    assert not is_kept(limiter, handle)


async def test_what_was_not_read_for_longest_makes_room() -> None:
    limiter = limiter_of(keep_bytes=25_000)
    first, second = await kept_by(limiter), await kept_by(limiter)
    assert is_kept(limiter, first)

    third = await kept_by(limiter)

    assert [is_kept(limiter, handle) for handle in (first, second, third)] == [True, False, True]


async def test_a_result_that_is_larger_than_all_room_is_not_kept() -> None:
    limiter = limiter_of(keep_bytes=9_999)

    assert not is_kept(limiter, await kept_by(limiter))


async def test_handles_differ_and_are_long() -> None:
    limiter = limiter_of()

    handles = {await kept_by(limiter) for _ in range(5)}

    assert len(handles) == 5
    assert all(re.fullmatch("r_[a-z2-7]{16}", handle) for handle in handles)


@pytest.mark.parametrize(
    ("owner", "reader", "may_read"),
    [
        (("ann", "1"), ("ann", "1"), True),
        (("ann", "1"), ("ann", "2"), False),
        (("ann", "1"), ("ann", None), False),
        (("ann", "1"), ("bob", "1"), False),
        (("ann", None), ("ann", "1"), True),
    ],
)
async def test_a_result_belongs_to_credentials_and_to_a_conversation_where_it_is_known(
    owner: tuple[str, str | None], reader: tuple[str, str | None], may_read: bool
) -> None:
    limiter = limiter_of()
    handle = await kept_by(limiter, call_of(*owner))

    if may_read:
        await limiter.answer_read_more(call_of(*reader, handle=handle))
    else:
        with pytest.raises(ResultExpiredError):
            await limiter.answer_read_more(call_of(*reader, handle=handle))
