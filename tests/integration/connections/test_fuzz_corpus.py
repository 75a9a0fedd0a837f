"""Messages that fuzzing found, and that once broke something."""

from __future__ import annotations

import asyncio

import pytest

from tests.fuzz.cases import bench, corpus

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


async def test_what_fuzzing_has_found_breaks_nothing_any_more() -> None:
    cases = corpus()
    problems: list[tuple[str, list[str]]] = []
    async with bench() as running:

        async def run_all(server: str) -> None:
            # One after the other on a server: each call shows what the last case left behind.
            for case in [case for case in cases if case.server == server]:
                found = await running.run(case)
                problems.append((server, found))

        await asyncio.gather(*(run_all(server) for server in {case.server for case in cases}))

    assert len(problems) == len(cases) > 0
    assert [problem for problem in problems if problem[1]] == []
