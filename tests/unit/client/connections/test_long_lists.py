"""A list of a server ends, however many pages and entries it has."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import mcp_types as types
import pytest

from plait.client.connections.operations import all_pages, list_prompts
from plait.client.protocol.exchange import Exchanges, PendingRequest, collect

pytestmark = pytest.mark.anyio


async def test_a_list_without_end_ends_after_a_thousand_pages(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cursors = map(str, itertools.count())

    async def fetch(cursor: str | None) -> types.ListPromptsResult:
        del cursor
        return types.ListPromptsResult(prompts=[], next_cursor=next(cursors))

    assert len(await all_pages(fetch)) == 1000
    assert [one.getMessage() for one in caplog.records] == [
        "a list ends after 1000 pages: the server has more"
    ]


async def test_a_list_of_large_pages_ends_after_a_hundred_thousand_entries(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cursors = map(str, range(5))
    prompts = [types.Prompt(name="p")] * 60_000

    async def fetch(cursor: str | None) -> types.ListPromptsResult:
        del cursor
        return types.ListPromptsResult.model_construct(
            prompts=prompts, next_cursor=next(cursors, None)
        )

    listed = await list_prompts(cast("Any", SimpleNamespace(list_prompts=fetch)))

    assert len(listed) == 100_000
    assert next(cursors) == "2"  # two pages were enough
    assert "cut after 100000 entries" in caplog.text


async def test_a_list_ends_at_a_cursor_that_is_too_long_to_be_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cursors = (str(number) * 20_000 for number in itertools.count(1))

    async def fetch(cursor: str | None) -> types.ListPromptsResult:
        del cursor
        return types.ListPromptsResult(prompts=[], next_cursor=next(cursors))

    assert len(await all_pages(fetch)) == 1
    assert "more than 16384 characters" in caplog.text


async def test_a_list_ends_when_its_pages_have_more_bytes_than_a_message_may_have(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cursors = map(str, itertools.count())

    async def fetch(cursor: str | None) -> types.ListPromptsResult:
        del cursor
        collect(PendingRequest("prompts/list", 1, "2026-07-28", body_bytes=10_000_000))
        return types.ListPromptsResult(prompts=[], next_cursor=next(cursors))

    with Exchanges():
        assert len(await all_pages(fetch)) == 4
    assert "which have more than 32000000 bytes" in caplog.text
