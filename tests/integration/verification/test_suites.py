"""Suites run on real servers with a scripted model, from the command line."""

from __future__ import annotations

import json
import signal
import stat
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from plait.testing import eventually
from plait.verification.read import read_suite
from plait.verification.results import CaseResult, read_results
from tests.integration.verification.suites import ADD, some_cases, started, suite_in, verify

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

SUM = [ADD, "It is 42."]
SLOW = [{**ADD, "delay": 0.05}, "It is 42."]


def results_in(folder: Path) -> dict[str, CaseResult]:
    return {result.case: result for result in read_results(folder)}


def test_checks_decide_which_cases_pass(tmp_path: Path) -> None:
    world = {"server": "sums", "tool": "add_numbers", "arguments": {"a": 1, "b": 1}, "equals": "2"}
    gone = {"gone": {"command": "there-is-no-such-program", "required": True}}
    cases = [
        {"name": "right", "checks": [{"tool_called": "sums/add_numbers"}, {"world": world}]},
        {"name": "wrong", "tags": ["bad"], "checks": [{"equals": "It is 43."}, {"max_turns": 1}]},
        {"name": "cut", "limits": {"turns": 1}, "checks": [{"contains": "42"}]},
        {"name": "broken", "servers": gone, "checks": [{"contains": "42"}]},
    ]
    done = verify(suite_in(tmp_path, cases, SUM), "--json", cwd=tmp_path)

    assert done.exit_code == 13, done.output
    report = json.loads(done.stdout)
    assert report["reasons"] == [
        "1 run could not be decided",
        "1 of 3 runs passed, and the threshold is 100 %",
    ]
    assert [report["total"][name] for name in ("passed", "failed", "errors")] == [1, 2, 1]
    folder = tmp_path / "plait-report"
    results = results_in(folder)
    outcomes = {name: result.outcome for name, result in results.items()}
    expected = {"right": "passed", "wrong": "failed", "cut": "failed", "broken": "error"}
    assert outcomes == expected
    assert [check["passed"] for check in results["wrong"].checks] == [False, False]
    cut = results["cut"]
    assert cut.failure.startswith("RecursionLimitAutoFail: the turn limit")
    assert (cut.recursion_limit_reached, cut.tokens > 0) == (True, True)
    assert (folder / str(cut.trace)).exists()
    junit = ET.parse(folder / "junit.xml").getroot()
    assert [len(junit.findall(f".//{kind}")) for kind in ("failure", "error")] == [2, 1]
    summary = (folder / "summary.md").read_text()
    assert ("wrong" in summary, "right" in summary) == (True, False)


def test_a_judge_reads_the_template_and_decides_about_traits(tmp_path: Path) -> None:
    judge = tmp_path / "judge.json"
    judge.write_text(json.dumps(['Sure: {"total": 42, "polite": true, "declines": false}']))
    total = {"name": "total", "type": "number", "expected": 42.2, "tolerance": 0.5}
    rubric = [{"name": "polite"}, {"name": "rude", "regex": "idiot", "wanted": False}]
    cases = [
        {"name": "good", "template": [total], "rubric": rubric, "abstention_enabled": True},
        {"name": "off", "template": [{**total, "tolerance": 0.1}]},
    ]
    verify(suite_in(tmp_path, cases, SUM, judge=f"scripted:{judge}"), cwd=tmp_path)

    results = results_in(tmp_path / "plait-report")
    assert results["good"].outcome == "passed"
    assert results["good"].traits == {"rude": False, "polite": True}
    assert results["off"].failure == "VerifyTemplate: total is 42, expected 42.2"


async def test_a_killed_runner_goes_on_where_it_was(tmp_path: Path) -> None:
    suite = suite_in(tmp_path, some_cases(12), SLOW, scope="suite")
    folder = tmp_path / "plait-report"
    results = folder / "results.jsonl"
    runner = started(suite, "--concurrency", "2", cwd=tmp_path)
    await eventually(
        lambda: results.exists() and results.read_text().count("\n") >= 2, timeout_seconds=60
    )
    runner.send_signal(signal.SIGKILL)
    runner.wait(10)
    with results.open("a") as file:
        file.write('{"key": "cut off')
    finished = {result.key: result.seconds for result in read_results(folder)}
    assert 2 <= len(finished) < 12

    done = started(suite, "--resume", cwd=tmp_path)

    assert done.wait(60) == 0
    after = {result.key: result.seconds for result in read_results(folder)}
    assert len(after) == 12
    assert {key: after[key] for key in finished} == finished


async def test_ctrl_c_leaves_a_valid_report(tmp_path: Path) -> None:
    suite = suite_in(tmp_path, some_cases(30), SLOW, scope="suite")
    folder = tmp_path / "plait-report"
    results = folder / "results.jsonl"
    runner = started(suite, "--concurrency", "2", cwd=tmp_path)
    await eventually(lambda: results.exists() and bool(results.read_text()), timeout_seconds=60)
    runner.send_signal(signal.SIGINT)
    assert runner.wait(30) == 130
    count = len(read_results(folder))
    assert 0 < count < 30
    assert len(ET.parse(folder / "junit.xml").getroot().findall(".//testcase")) == count


def test_shards_are_merged_to_the_report_of_one_run(tmp_path: Path) -> None:
    suite = suite_in(tmp_path, some_cases(5), SUM, repeat=2, scope="suite")
    for part in (1, 2):
        done = verify(suite, "--shard", f"{part}/2", "--report", f"out-{part}", cwd=tmp_path)
        assert done.exit_code == 0, done.output
    verify(suite, "--report", "whole", cwd=tmp_path)

    done = verify("merge", "out-1", "out-2", "--report", "out", "--json", cwd=tmp_path)

    assert done.exit_code == 0, done.output
    total = json.loads(done.stdout)["total"]
    assert (total["passed"], total["k"], total["pass_hat_k"]) == (10, 2, 1.0)
    merged, whole = (
        {result.key for result in read_results(tmp_path / name)} for name in ("out", "whole")
    )
    assert merged == whole


def test_a_report_is_compared_with_its_baseline(tmp_path: Path) -> None:
    suite = suite_in(tmp_path, some_cases(6), SUM, scope="suite")
    verify(suite, "--report", "good", cwd=tmp_path)
    (tmp_path / "script.json").write_text(json.dumps([ADD, "No idea."]))
    against = ("--threshold", "0", "--baseline", "good")
    bad = verify(suite, "--report", "bad", *against, cwd=tmp_path)

    done = verify("compare", "good", "bad", "--html", "both.html", "--json", cwd=tmp_path)

    assert bad.exit_code == done.exit_code == 13
    assert "not verified: all cases together are worse than the baseline" in bad.stderr
    assert "the threshold" not in bad.stderr
    found = json.loads(done.stdout)
    assert found["worse"] == [f"case-{n}" for n in range(6)]
    assert (found["difference"]["mean"], found["p_value"]) == (-1.0, 0.03125)
    private = [tmp_path / "both.html", *(tmp_path / "bad").glob("re*")]
    assert sorted(path.name for path in private) == ["both.html", "report.html", "results.jsonl"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in private} == {0o600}
    better = verify("compare", "bad", "good", cwd=tmp_path)
    assert (better.exit_code, "better: 6, worse: 0" in better.stdout) == (0, True)


def test_the_starter_passes_offline(tmp_path: Path) -> None:
    assert verify("init", "agents", cwd=tmp_path).exit_code == 0
    done = verify("agents/suite.yaml", cwd=tmp_path)
    assert done.exit_code == 0, done.output
    assert "2 of 2" in done.stdout
    assert verify("init", "agents", cwd=tmp_path).exit_code == 4


def test_one_case_is_watched(tmp_path: Path) -> None:
    cases = [*some_cases(1), {"name": "wrong", "checks": [{"equals": "43"}]}]
    suite = suite_in(tmp_path, cases, SUM)

    done = verify("case", suite, "case-0", "--report", "out", cwd=tmp_path)

    assert done.exit_code == 0, done.output
    assert "add_numbers" in done.stderr
    assert "FinalizeResult" in done.stdout
    assert "passed: case-0" in done.stdout
    assert list(results_in(tmp_path / "out")) == ["case-0"]
    failed = verify("case", suite, "wrong", cwd=tmp_path)
    assert failed.exit_code == 13
    assert "the answer is" in failed.stdout
    assert not (tmp_path / "plait-report").exists()
    trace = next((tmp_path / "out" / "traces").glob("*.jsonl"))
    made = verify("from-trace", trace, "--expect", "42", "--name", "again", cwd=tmp_path)
    assert made.exit_code == 0, made.output
    (tmp_path / "again.yaml").write_text(made.stdout)
    (case,) = read_suite(tmp_path / "again.yaml").cases
    assert (case.name, case.question) == ("again", "What is 20 + 22?")
    assert case.checks == [{"contains": "42"}, {"tools_in_order": ["add_numbers"]}]
