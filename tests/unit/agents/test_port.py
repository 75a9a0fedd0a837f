"""Tools of the program: their answers, and what becomes of their errors."""

from __future__ import annotations

import pytest

from plait.agents.program_tools import StaticTool


async def _later(a: int) -> int:
    return a + 1


def _broken() -> None:
    raise LookupError("no")


@pytest.mark.anyio
async def test_a_function_answers_whether_or_not_it_is_async() -> None:
    assert await StaticTool("t", function=lambda a: f"<{a}>").call({"a": 1}) == ("<1>", False)
    assert await StaticTool("t", function=_later).call({"a": 1}) == ("2", False)


@pytest.mark.anyio
async def test_the_model_reads_what_went_wrong() -> None:
    assert await StaticTool("t", function=_broken).call({}) == (
        "t failed: LookupError: no",
        True,
    )
    text, failed = await StaticTool("t", "about", {"type": "object"}).call({})
    assert failed
    assert "cannot be called" in text
