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
from plait.verification.results import read_results
from tests.integration.verification.suites import ADD, started, suite_in, verify

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


def test_checks_decide_which_cases_pass(tmp_path: Path) -> None:
    called = {"name": "add_numbers", "arguments": {"a": 20}, "result_contains": "42", "times": 1}
    cases = [
        {
            "name": "right",
            "checks": [
                {"contains": ["42", "it is"]},
                {"matches": "4[0-9]"},
                {"not_contains": "43"},
                {"tool_called": called},
                {"tools_in_order": ["sums/add_numbers"]},
                {"tool_not_called": "get_timestamp"},
                {"no_tool_errors": True},
                {"max_turns": 2},
                {"max_seconds": 100},
                {
                    "world": {
                        "server": "sums",
                        "tool": "add_numbers",
                        "arguments": {"a": 1, "b": 1},
                        "equals": "2",
                    }
                },
            ],
        },
        {"name": "wrong", "tags": ["bad"], "checks": [{"equals": "It is 43."}, {"max_turns": 1}]},
        {"name": "cut", "limits": {"turns": 1}, "checks": [{"contains": "42"}]},
        {
            "name": "broken",
            "servers": {"gone": {"command": "there-is-no-such-program", "required": True}},
            "checks": [{"contains": "42"}],
        },
    ]
    suite = suite_in(tmp_path, cases, [ADD, "It is 42."])

    done = verify(suite, "--json", cwd=tmp_path)

    assert done.returncode == 13, done.stderr
    report = json.loads(done.stdout)
    assert report["reasons"] == [
        "1 run could not be decided",
        "1 of 3 runs passed, and the threshold is 100 %",
    ]
    assert report["total"]["passed"] == 1
    assert report["total"]["failed"] == 2
    assert report["total"]["errors"] == 1
    results = {result.case: result for result in read_results(tmp_path / "plait-report")}
    assert {name: result.outcome for name, result in results.items()} == {
        "right": "passed",
        "wrong": "failed",
        "cut": "failed",
        "broken": "error",
    }
    assert [check["passed"] for check in results["wrong"].checks] == [False, False]
    assert results["cut"].failure.startswith("RecursionLimitAutoFail: the turn limit")
    assert results["cut"].recursion_limit_reached
    assert results["cut"].tokens > 0
    assert (tmp_path / "plait-report" / str(results["cut"].trace)).exists()
    junit = ET.parse(tmp_path / "plait-report" / "junit.xml").getroot()
    assert len(junit.findall(".//failure")) == 2
    assert len(junit.findall(".//error")) == 1
    summary = (tmp_path / "plait-report" / "summary.md").read_text()
    assert "wrong" in summary
    assert "right" not in summary


def test_a_judge_reads_the_template_and_decides_about_traits(tmp_path: Path) -> None:
    judge = tmp_path / "judge.json"
    judge.write_text(json.dumps(['Sure: {"total": 42, "polite": true, "declines": false}']))
    template = [{"name": "total", "type": "number", "expected": 42.2, "tolerance": 0.5}]
    cases = [
        {
            "name": "good",
            "template": template,
            "rubric": [{"name": "polite"}, {"name": "rude", "regex": "idiot", "wanted": False}],
            "abstention_enabled": True,
        },
        {"name": "off", "template": [{**template[0], "tolerance": 0.1}]},
    ]
    suite = suite_in(tmp_path, cases, [ADD, "It is 42."], judge=f"scripted:{judge}")

    verify(suite, cwd=tmp_path)

    results = {result.case: result for result in read_results(tmp_path / "plait-report")}
    assert results["good"].outcome == "passed"
    assert results["good"].traits == {"rude": False, "polite": True}
    assert results["off"].failure == "VerifyTemplate: total is 42, expected 42.2"


async def test_a_killed_runner_goes_on_where_it_was(tmp_path: Path) -> None:
    cases = [{"name": f"case-{n}", "checks": [{"contains": "42"}]} for n in range(12)]
    script = [{**ADD, "delay": 0.05}, "It is 42."]
    suite = suite_in(tmp_path, cases, script, scope="suite")
    results = tmp_path / "plait-report" / "results.jsonl"
    runner = started(suite, "--concurrency", "2", cwd=tmp_path)
    await eventually(
        lambda: results.exists() and results.read_text().count("\n") >= 2, timeout_seconds=60
    )
    runner.send_signal(signal.SIGKILL)
    runner.wait(10)
    with results.open("a") as file:
        file.write('{"key": "cut off')
    finished = {result.key: result.seconds for result in read_results(tmp_path / "plait-report")}
    assert 2 <= len(finished) < 12

    done = verify(suite, "--resume", "--json", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["total"]["passed"] == 12
    after = {result.key: result.seconds for result in read_results(tmp_path / "plait-report")}
    assert len(after) == 12
    assert {key: after[key] for key in finished} == finished


def test_shards_are_merged_to_the_report_of_one_run(tmp_path: Path) -> None:
    cases = [{"name": f"case-{n}", "checks": [{"contains": "42"}]} for n in range(5)]
    suite = suite_in(tmp_path, cases, [ADD, "It is 42."], repeat=2, scope="suite")
    for part in (1, 2):
        done = verify(suite, "--shard", f"{part}/2", "--report", f"out-{part}", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    verify(suite, "--report", "whole", cwd=tmp_path)

    done = verify("merge", "out-1", "out-2", "--report", "out", "--json", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    total = json.loads(done.stdout)["total"]
    assert (total["passed"], total["k"], total["pass_hat_k"]) == (10, 2, 1.0)
    keys = {result.key for result in read_results(tmp_path / "out")}
    assert keys == {result.key for result in read_results(tmp_path / "whole")}


def test_a_report_is_compared_with_its_baseline(tmp_path: Path) -> None:
    cases = [{"name": f"case-{n}", "checks": [{"contains": "42"}]} for n in range(6)]
    suite = suite_in(tmp_path, cases, [ADD, "It is 42."], scope="suite")
    verify(suite, "--report", "good", cwd=tmp_path)
    (tmp_path / "script.json").write_text(json.dumps([ADD, "No idea."]))
    against = ("--threshold", "0", "--baseline", "good")
    bad = verify(suite, "--report", "bad", *against, cwd=tmp_path)

    done = verify("compare", "good", "bad", "--html", "both.html", "--json", cwd=tmp_path)

    assert bad.returncode == 13
    assert "not verified: all cases together are worse than the baseline" in bad.stderr
    assert "the threshold" not in bad.stderr
    assert done.returncode == 13
    assert verify("compare", "bad", "good", cwd=tmp_path).returncode == 0
    found = json.loads(done.stdout)
    assert found["worse"] == [f"case-{n}" for n in range(6)]
    assert found["difference"]["mean"] == -1.0
    assert found["p_value"] == 0.03125
    private = [tmp_path / "both.html", *(tmp_path / "bad").glob("re*")]
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in private} == {
        "both.html": 0o600,
        "report.html": 0o600,
        "results.jsonl": 0o600,
    }


def test_the_starter_passes_offline(tmp_path: Path) -> None:
    assert verify("init", "agents", cwd=tmp_path).returncode == 0
    done = verify("agents/suite.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 of 2" in done.stdout
    assert verify("init", "agents", cwd=tmp_path).returncode == 4


def test_one_case_is_watched(tmp_path: Path) -> None:
    cases = [
        {"name": "right", "checks": [{"contains": "42"}]},
        {"name": "wrong", "checks": [{"equals": "43"}]},
    ]
    suite = suite_in(tmp_path, cases, [ADD, "It is 42."])

    done = verify("case", suite, "right", "--report", "out", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "add_numbers" in done.stderr
    assert "FinalizeResult" in done.stdout
    assert "passed: right" in done.stdout
    assert [result.case for result in read_results(tmp_path / "out")] == ["right"]
    failed = verify("case", suite, "wrong", cwd=tmp_path)
    assert failed.returncode == 13
    assert "the answer is" in failed.stdout
    assert not (tmp_path / "plait-report").exists()
    trace = next((tmp_path / "out" / "traces").glob("*.jsonl"))
    made = verify("from-trace", trace, "--expect", "42", "--name", "again", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    (tmp_path / "again.yaml").write_text(made.stdout)
    (case,) = read_suite(tmp_path / "again.yaml").cases
    assert (case.name, case.question) == ("again", "What is 20 + 22?")
    assert case.checks == [{"contains": "42"}, {"tools_in_order": ["add_numbers"]}]


async def test_ctrl_c_leaves_a_valid_report(tmp_path: Path) -> None:
    script = [{**ADD, "delay": 0.05}, "It is 42."]
    cases = [{"name": f"case-{n}", "checks": [{"contains": "42"}]} for n in range(30)]
    suite = suite_in(tmp_path, cases, script, scope="suite")
    folder = tmp_path / "plait-report"
    results = folder / "results.jsonl"
    runner = started(suite, "--concurrency", "2", cwd=tmp_path)
    await eventually(lambda: results.exists() and bool(results.read_text()), timeout_seconds=60)
    runner.send_signal(signal.SIGINT)
    assert runner.wait(30) == 130
    count = len(read_results(folder))
    assert 0 < count < 30
    junit = ET.parse(folder / "junit.xml").getroot()
    assert len(junit.findall(".//testcase")) == count
