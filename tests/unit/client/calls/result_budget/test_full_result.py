"""Whole results are kept for a while, for those they belong to."""

from __future__ import annotations

from datetime import UTC, datetime

import mcp_types as types

from plait.client.calls.outcome import ToolResult
from plait.client.calls.result_budget.limiter import FullResult, FullResultStore, Owner
from plait.client.config.budgets import Limit


class HandClock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def full_result(text: str = "text", size_bytes: int = 10) -> FullResult:
    block = types.TextContent(text=text)
    result = ToolResult(server="s", tool="t", is_error=False, content=(block,))
    return FullResult(
        result=result,
        server="s",
        owner=Owner("", None),
        limit=Limit(tokens=1000),
        size_bytes=size_bytes,
    )


def test_a_result_is_kept_for_its_time_after_it_was_last_read() -> None:
    clock = HandClock()
    store = FullResultStore(keep_seconds=100, keep_bytes=1000, clock=clock)
    one = full_result()
    store.put("r_1", one)

    clock.seconds = 99
    assert store.get("r_1") is one
    clock.seconds = 198
    assert store.get("r_1") is one
    clock.seconds = 297
    assert store.peek("r_1") is one
    clock.seconds = 298
    assert store.peek("r_1") is None
    assert store.get("r_1") is None


def test_what_was_not_read_for_longest_makes_room() -> None:
    store = FullResultStore(keep_seconds=100, keep_bytes=25)
    for name in ("r_1", "r_2"):
        store.put(name, full_result(name))
    store.get("r_1")

    store.put("r_3", full_result("r_3"))

    assert [name for name in ("r_1", "r_2", "r_3") if store.get(name)] == ["r_1", "r_3"]


def test_a_result_that_is_larger_than_all_room_is_not_kept() -> None:
    store = FullResultStore(keep_seconds=100, keep_bytes=25)

    store.put("r_1", full_result(size_bytes=26))

    assert store.get("r_1") is None


def test_handles_differ_and_are_long() -> None:
    handles = {FullResultStore.new_handle() for _ in range(1000)}

    assert len(handles) == 1000
    assert {len(handle) for handle in handles} == {18}
    assert all(handle.isidentifier() for handle in handles)


def test_a_result_belongs_to_credentials_and_to_a_conversation_where_it_is_known() -> None:
    ann = Owner("ann", "1")

    assert ann.may_be_read_by(Owner("ann", "1"))
    assert not ann.may_be_read_by(Owner("ann", "2"))
    assert not ann.may_be_read_by(Owner("ann", None))
    assert not ann.may_be_read_by(Owner("bob", "1"))
    assert Owner("ann", None).may_be_read_by(ann)
