"""Several things at the same time, or one alone: what comes back is the same."""

from __future__ import annotations

import asyncio

import pytest

from plait._support.gather import gather_all, gather_outcomes

pytestmark = pytest.mark.anyio


async def _said(word: str, log: list[str], *, fails: bool = False) -> str:
    log.append(f"{word} begins")
    await asyncio.sleep(0)
    log.append(f"{word} ends")
    if fails:
        raise ValueError(word)
    return word


@pytest.mark.parametrize("words", [[], ["one"], ["one", "two"]])
async def test_everything_is_waited_for_and_stands_in_order(words: list[str]) -> None:
    log: list[str] = []

    assert await gather_all(_said(word, log) for word in words) == words
    assert await gather_outcomes(_said(word, log) for word in words) == words


async def test_several_run_at_the_same_time() -> None:
    log: list[str] = []

    await gather_all([_said("one", log), _said("two", log)])

    assert log == ["one begins", "two begins", "one ends", "two ends"]


@pytest.mark.parametrize("others", [[], ["two"]])
async def test_a_failure_is_raised_or_is_an_outcome(others: list[str]) -> None:
    log: list[str] = []

    with pytest.raises(ValueError, match="one"):
        await gather_all([_said("one", log, fails=True), *(_said(word, log) for word in others)])
    failed, *rest = await gather_outcomes(
        [_said("one", log, fails=True), *(_said(word, log) for word in others)]
    )

    assert repr(failed) == "ValueError('one')"
    assert rest == others


async def test_whoever_waits_for_one_can_be_cancelled() -> None:
    waiting = asyncio.create_task(gather_outcomes([asyncio.sleep(30)]))
    await asyncio.sleep(0)

    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
