"""A person answers at the terminal or in a viewer, whichever is first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest

from plait.cli.run_agent import first_answer

pytestmark = pytest.mark.anyio

Ask: TypeAlias = Callable[..., Awaitable[str | None]]

ended: list[str] = []


def _after(event: asyncio.Event | None, answer: str | None, name: str) -> Ask:
    """Answer once something has happened; never if there is nothing to wait for."""

    async def answering(*, patient: bool = False) -> str | None:
        del patient
        try:
            await (event.wait() if event else asyncio.Future[None]())
        except asyncio.CancelledError:
            ended.append(name)
            raise
        return answer

    return answering


@pytest.fixture
def now() -> asyncio.Event:
    ended.clear()
    event = asyncio.Event()
    event.set()
    return event


async def test_the_viewer_answers_first_and_the_prompt_ends(now: asyncio.Event) -> None:
    both = _after(None, "terminal", "terminal"), _after(now, "viewer", "viewer")
    assert await first_answer(*both, has_terminal=True) == "viewer"
    assert ended == ["terminal"]


async def test_the_terminal_answers_first_and_the_viewer_is_told(now: asyncio.Event) -> None:
    both = _after(now, "terminal", "terminal"), _after(None, "viewer", "viewer")
    assert await first_answer(*both, has_terminal=True) == "terminal"
    assert ended == ["viewer"]


async def test_without_a_viewer_the_terminal_is_waited_for(now: asyncio.Event) -> None:
    later = asyncio.Event()
    asyncio.get_running_loop().call_later(0.01, later.set)
    both = _after(later, "terminal", "terminal"), _after(now, None, "viewer")
    assert await first_answer(*both, has_terminal=True) == "terminal"


async def test_without_a_terminal_the_viewer_is_asked_before_it_is_refused(
    now: asyncio.Event,
) -> None:
    refused = _after(now, "refused", "terminal")
    both = refused, _after(now, "viewer", "viewer")
    assert await first_answer(*both, has_terminal=False) == "viewer"
    assert await first_answer(refused, _after(now, None, "viewer"), has_terminal=False) == "refused"
