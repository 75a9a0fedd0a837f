"""Two hundred cases, and a runner that is killed at any point; `make test-kills` runs it."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest

from plait.testing import eventually
from plait.verification import read_results
from tests.integration.verification.suites import (
    ADD,
    Watched,
    comparable,
    some_cases,
    started,
    suite_in,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(1800)]


async def test_a_runner_that_is_killed_again_and_again_makes_the_same_report(
    tmp_path: Path,
) -> None:
    cases = [*some_cases(199), {"name": "wrong", "checks": [{"contains": "43"}]}]
    suite = suite_in(tmp_path, cases, [ADD, "It is 42."])
    whole = await Watched(suite, report=tmp_path / "whole", concurrency=6, per_model=3).run()
    assert (len(whole.results), whole.most) == (200, 3)
    results = tmp_path / "plait-report" / "results.jsonl"
    chance = random.Random(7)
    kept: dict[str, float] = {}
    for kill in range(4):
        runner = started(suite, "--resume", cwd=tmp_path)
        wanted = len(kept) + chance.randint(1, 40)

        def enough(wanted: int = wanted) -> bool:
            return results.exists() and results.read_text().count("\n") >= wanted

        await eventually(enough, timeout_seconds=300)
        runner.send_signal(signal.SIGKILL)
        runner.wait(10)
        found = {result.key: result.seconds for result in read_results(results.parent)}
        assert {key: found[key] for key in kept} == kept
        kept = found
        print(f"kill {kill + 1}: {len(kept)} results")
    resumed = await Watched(suite, resume=True).run()
    assert len(resumed.asked) <= 200 - len(kept)
    assert comparable(resumed.results) == comparable(whole.results)
