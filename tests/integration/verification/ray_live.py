"""A suite on a local ray cluster: the same report as on one machine; `make test-ray` runs it."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from plait.testing import eventually
from plait.verification import read_results
from plait.verification.answers import merge_reports
from tests.integration.verification.suites import ADD, Watched, comparable, some_cases, suite_in

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]

ray_command = str(Path(sys.executable).parent / "ray")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Start a cluster on this machine."""
    # Workers must find the tests, and not inherit the folder of a test.
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[3])
    os.environ["RAY_raylet_start_wait_time_s"] = "120"  # noqa: SIM112  # as ray spells it
    # Otherwise workers get next to no time on a busy machine.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
    # A token of this cluster alone, whatever the machine has.
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    start = [ray_command, "start", "--head", "--num-cpus=2", "--include-dashboard=false"]
    subprocess.run([*start, "--port=6399"], check=True, stdout=subprocess.DEVNULL)
    os.environ["RAY_ADDRESS"] = "127.0.0.1:6399"
    yield
    import_module("ray").shutdown()
    subprocess.run([ray_command, "stop", "--force"], check=True, stdout=subprocess.DEVNULL)


async def test_the_report_is_that_of_one_machine_and_of_four_shards(tmp_path: Path) -> None:
    cases = [*some_cases(7), {"name": "wrong", "checks": [{"contains": "43"}]}]
    suite = suite_in(tmp_path, cases, [ADD, "It is 42."], repeat=2)
    local = await Watched(suite, report=tmp_path / "local").run()
    spread = await Watched(suite, report=tmp_path / "ray", on_ray=True).run()
    parts = [tmp_path / f"part-{n}" for n in range(1, 5)]
    for number, part in enumerate(parts, 1):
        await Watched(suite, report=part, shard=(number, 4)).run()
    merged = merge_reports(parts, tmp_path / "merged")
    assert len(local.results) == 16
    assert comparable(spread.results) == comparable(local.results)
    assert comparable(merged) == comparable(local.results)
    for folder in ("ray", "merged"):
        for result in read_results(tmp_path / folder):
            assert result.with_trace(tmp_path / folder)["trace_messages"]


async def test_caps_hold_for_all_workers_together(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    checks = [{"python": {"call": "overlap:noted", "with": {"folder": str(log)}}}]
    code = """\
import time, uuid
from pathlib import Path

def noted(evidence, folder):
    ends = time.time()
    began = ends - evidence.seconds
    Path(folder, uuid.uuid4().hex).write_text(f"{began} {ends}")
"""
    (tmp_path / "overlap.py").write_text(code)
    cases = [{"name": f"case-{n}", "checks": checks} for n in range(5)]
    script = [{**ADD, "delay": 0.2}, {"text": "It is 42.", "delay": 0.2}]
    suite = suite_in(tmp_path, cases, script, caps={"servers": {"sums": 1}})
    watched = await Watched(suite, on_ray=True).run()
    assert set(watched.outcomes.values()) == {"passed"}
    spans = sorted(tuple(map(float, path.read_text().split())) for path in log.iterdir())
    assert len(spans) == 5
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


async def test_judgments_come_back_and_are_not_paid_again(tmp_path: Path) -> None:
    (tmp_path / "judge.json").write_text(json.dumps([json.dumps({"polite": True})]))
    cases = [{"name": "adds", "rubric": [{"name": "polite"}]}]
    suite = suite_in(tmp_path, cases, [ADD, "It is 42."], judge="scripted:judge.json")
    first = await Watched(suite, on_ray=True).run()
    assert first.results[0].judge_tokens > 0
    (tmp_path / "plait-report" / "results.jsonl").unlink()
    again = await Watched(suite, on_ray=True, resume=True).run()
    assert (again.outcomes, again.results[0].judge_tokens) == ({"adds": "passed"}, 0)


async def test_ctrl_c_leaves_a_valid_report_and_no_worker(tmp_path: Path) -> None:
    script = [{**ADD, "delay": 0.3}, "It is 42."]
    suite = suite_in(tmp_path, some_cases(12), script, scope="suite")
    watched = Watched(suite, concurrency=2, on_ray=True)
    watched.on_result = lambda result: watched.runner.stop()
    await watched.run()
    assert watched.runner.stopped == "interrupt"
    assert 0 < len(watched.results) < 12
    await eventually(lambda: not _workers(), timeout_seconds=30)
    rest = await Watched(suite, resume=True).run()
    assert len(rest.results) == 12
    assert len(rest.asked) == 12 - len(watched.results)


def _workers() -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any("ray::Worker" in part for part in process.info["cmdline"] or [])
    ]


async def test_a_killed_worker_is_replaced_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    script = [{**ADD, "delay": 0.3}, "It is 42."]
    suite = suite_in(tmp_path, some_cases(12), script)
    watched = Watched(suite, concurrency=2, on_ray=True)
    killed: list[int] = []

    def kill_a_worker(result: object) -> None:
        if not killed:
            worker = _workers()[0]
            killed.append(worker.pid)
            worker.send_signal(signal.SIGKILL)

    watched.on_result = kill_a_worker
    await watched.run()
    assert killed
    assert set(watched.outcomes.values()) == {"passed"}
    lines = (tmp_path / "plait-report" / "results.jsonl").read_text().splitlines()
    assert len(lines) == 12
    assert len({result.key for result in watched.results}) == 12
