"""The runner: caps, budgets, refusals, and what is not asked again."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from plait.errors import ConfigError
from plait.testing import OpenAIServer
from plait.testing.llm.turns import Refuse
from plait.verification import RunOptions, read_results, read_suite
from plait.verification.plan import plan_runs
from tests.integration.verification.suites import (
    ADD,
    NOTES,
    Watched,
    comparable,
    some_cases,
    suite_in,
    sums,
)
from tests.nursery import entry

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

SUM = [ADD, "It is 42."]


@pytest.mark.parametrize(
    ("options", "caps", "most"),
    [
        ({"concurrency": 3}, {}, 3),
        ({"per_model": 2}, {"total": 6}, 2),
        ({"per_server": 2}, {"per_server": 3}, 2),
        ({"per_model": 3}, {"models": {"scripted:script.json": 2}}, 2),
        ({}, {"servers": {"sums": 1}}, 1),
    ],
)
async def test_caps_are_respected(
    options: dict[str, Any], caps: dict[str, Any], most: int, tmp_path: Path
) -> None:
    slow = [{**ADD, "delay": 0.02}, {"text": "It is 42.", "delay": 0.02}]
    suite = suite_in(tmp_path, some_cases(6), slow, caps=caps, scope="suite")
    watched = await Watched(suite, **options).run()
    assert set(watched.outcomes.values()) == {"passed"}
    assert watched.most == most
    assert [one.done for one in watched.progress] == [1, 2, 3, 4, 5, 6]
    assert watched.progress[0].seconds_left is not None


async def test_a_provider_that_refuses_gets_fewer_requests(tmp_path: Path) -> None:
    refusals = iter([Refuse(status=429, retry_after="0")] * 10)
    with OpenAIServer(lambda _: next(refusals, "It is 42.")) as server:
        model = f"{server.base_url}#test-model"
        suite = suite_in(tmp_path, some_cases(8), SUM, model=model, servers={})
        watched = await Watched(suite, per_model=8).run()
        cap = watched.runner.cases.caps.of_model(model)
    assert set(watched.outcomes.values()) == {"passed"}
    assert sum(result.retries for result in watched.results) > 0
    assert cap.size < 8


async def test_a_cost_budget_ends_the_suite(tmp_path: Path) -> None:
    prices = {"scripted": {"input": 1_000_000, "output": 1_000_000}}
    suite = suite_in(tmp_path, some_cases(6), SUM, prices=prices, scope="suite")
    watched = await Watched(suite, max_cost_usd=1.0, concurrency=1).run()
    assert watched.runner.stopped == "cost"
    assert (len(watched.results), watched.runner.missing) == (1, 5)
    assert watched.progress[-1].cost_usd > 1.0
    rest = await Watched(suite, resume=True).run()
    assert (len(rest.asked), len(rest.results)) == (5, 6)


async def test_a_time_budget_ends_the_suite(tmp_path: Path) -> None:
    slow = [{"text": "It is 42.", "delay": 0.2}]
    suite = suite_in(tmp_path, some_cases(3), slow, servers={})
    watched = await Watched(suite, max_seconds=0.1, concurrency=1).run()
    assert watched.runner.stopped == "time"
    assert (len(watched.results), watched.runner.missing) == (1, 2)


def test_what_decides_an_answer_is_in_its_key(tmp_path: Path) -> None:
    (tmp_path / "menu.txt").write_text("soup")
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"a": {"command": "a"}}}))
    case = {"name": "a", "files": {"menu.txt": "menu.txt"}, "checks": [{"equals": 1}]}

    def plan(script: list[Any] = SUM, **changes: Any) -> tuple[str, str]:
        settings: dict[str, Any] = {"servers": "mcp.json", **changes}
        options = {name: settings.pop(name) for name in ("models", "engines") if name in settings}
        suite = read_suite(suite_in(tmp_path, [{**case, **settings}], script))
        (run,) = plan_runs(suite, RunOptions(report=tmp_path, **options))
        return run.answer_key, run.key

    first = plan()
    assert plan() == first
    changes: list[dict[str, Any]] = [
        *({"script": ["Other."]}, {"question": "Another?"}, {"system": "Be brief."}),
        *({"limits": {"turns": 2}}, {"seed": 1}, {"servers": {"a": {"command": "b"}}}),
        *({"setup": [{"run": "true"}]}, {"models": ["openai:x"]}, {"engines": ["langchain"]}),
    ]
    keys = [plan(**change)[0] for change in changes]
    (tmp_path / "menu.txt").write_text("stew")
    keys.append(plan()[0])
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"a": {"command": "c"}}}))
    keys.append(plan()[0])
    assert len({first[0], *keys}) == 1 + len(keys)
    before = plan()
    judged = [plan(checks=[{"equals": 2}]), plan(judge="openai:y"), plan(abstention_enabled=True)]
    assert {key for key, _ in judged} == {before[0]}
    assert len({before[1], *(key for _, key in judged)}) == 4


async def test_an_interrupted_suite_goes_on_to_the_same_report(tmp_path: Path) -> None:
    suite = suite_in(tmp_path, some_cases(6), SUM)
    whole = await Watched(suite, report=tmp_path / "whole").run()
    part = Watched(suite, concurrency=2)
    part.on_result = lambda result: part.runner.stop()
    await part.run()
    assert part.runner.stopped == "interrupt"
    assert 0 < len(part.results) < 6
    resumed = await Watched(suite, resume=True).run()
    assert not set(resumed.asked) & {result.case for result in part.results}
    assert comparable(resumed.results) == comparable(whole.results)


async def test_judges_models_and_repeats_are_added_without_asking_again(tmp_path: Path) -> None:
    for name, polite in (("kind", True), ("strict", False)):
        (tmp_path / f"{name}.json").write_text(json.dumps([json.dumps({"polite": polite})]))
    (tmp_path / "other.json").write_text(json.dumps(["It is 42, sir."]))
    cases = [{"name": "adds", "rubric": [{"name": "polite"}]}]
    prices = {"scripted": {"input": 1, "output": 1}}
    suite = suite_in(tmp_path, cases, SUM, judge="scripted:kind.json", prices=prices)
    first = await Watched(suite).run()
    usage = first.results[0].usage_metadata
    assert usage["total"]["cost_usd"] > usage["GenerateAnswer"]["cost_usd"] > 0
    assert first.progress[-1].cost_usd == pytest.approx(usage["total"]["cost_usd"])
    assert [(one.judge, one.outcome) for one in first.results] == [("scripted:kind.json", "passed")]

    judged = await Watched(suite, resume=True, judges=["scripted:strict.json"]).run()
    assert judged.asked == []
    assert [(one.judge, one.outcome) for one in judged.results] == [
        ("scripted:strict.json", "failed"),
        ("scripted:kind.json", "passed"),
    ]
    more: list[dict[str, Any]] = [{"repeat": 2}, {"models": ["scripted:other.json"]}, {}]
    for count, options in zip((3, 4, 4), more, strict=True):
        added = await Watched(suite, resume=True, **options).run()
        assert (added.asked, len(added.results)) == (["adds"] if options else [], count)

    # Without its results, a report still has what models and judges answered.
    (tmp_path / "plait-report" / "results.jsonl").unlink()
    judges = ["scripted:kind.json", "scripted:strict.json"]
    free = await Watched(suite, resume=True, judges=judges).run()
    assert free.asked == []
    outcomes = [(one.outcome, one.judge_tokens) for one in free.results]
    assert outcomes == [("passed", 0), ("failed", 0)]
    assert first.results[0].judge_tokens > 0


async def test_a_part_of_a_suite_leaves_the_results_of_the_others(tmp_path: Path) -> None:
    suite = suite_in(tmp_path, some_cases(3), ["It is 42."], servers={})
    await Watched(suite).run()
    (tmp_path / "script.json").write_text(json.dumps(["It is 42, again."]))
    part = await Watched(suite, resume=True, cases=["case-1"]).run()
    assert [result.answer for result in part.results] == ["It is 42, again."]
    found = {one.case: one.answer for one in read_results(tmp_path / "plait-report")}
    assert found == {
        **dict.fromkeys(("case-0", "case-2"), "It is 42."),
        "case-1": "It is 42, again.",
    }


async def test_a_changed_check_is_free_and_a_changed_question_is_not(tmp_path: Path) -> None:
    suite = suite_in(tmp_path, some_cases(1), SUM)
    await Watched(suite).run()
    other: list[dict[str, Any]] = [{"name": "case-0", "checks": [{"contains": "43"}]}]
    changed = await Watched(suite_in(tmp_path, other, SUM), resume=True).run()
    assert (changed.asked, changed.outcomes) == ([], {"case-0": "failed"})
    # The result of the check before says nothing about this suite.
    (now,) = read_results(tmp_path / "plait-report")
    assert now.outcome == "failed"
    other[0]["question"] = "What is 22 + 20?"
    asked = await Watched(suite_in(tmp_path, other, SUM), resume=True).run()
    assert asked.asked == ["case-0"]


def noting(script: list[Any], checks: list[Any], folder: Path) -> Path:
    servers = {"notes": entry(str(NOTES), cwd="{workdir}")}
    (folder / "menu.txt").write_text("soup")
    case = {"name": "notes", "files": {"data/menu.txt": "menu.txt"}, "checks": checks}
    return suite_in(folder, [case], script, servers=servers)


async def test_the_world_is_compared_with_the_one_before(tmp_path: Path) -> None:
    listed = {"server": "notes", "tool": "list_notes"}
    script = [{"calls": [{"name": "add_note", "arguments": {"text": "milk"}}]}, "Noted."]
    checks = [
        {"world": {**listed, "changed": True}},
        {"world": {**listed, "path": "$.notes", "equals": ["milk"]}},
        {"world": {**listed, "path": "$.folder", "equals": ["data"]}},
        {"world": {**listed, "changed": False}},
        {"no_denied_tool": True},
    ]
    suite = noting(script, checks, tmp_path)
    (result,) = (await Watched(suite).run()).results
    assert [check["passed"] for check in result.checks] == [True, True, True, False, True]

    # What a check has seen is still known; what none has seen needs a world of its own.
    seen = noting(script, checks[:2], tmp_path)
    again = await Watched(seen, resume=True).run()
    assert (again.asked, again.outcomes) == ([], {"notes": "passed"})
    add = {"server": "notes", "tool": "add_note", "arguments": {"text": "tea"}, "equals": "noted"}
    unseen = noting(script, [{"world": add}], tmp_path)
    made = await Watched(unseen, resume=True).run()
    assert (made.asked, made.outcomes) == (["notes"], {"notes": "passed"})


async def test_a_world_is_set_up_before_the_agent_runs(tmp_path: Path) -> None:
    listed = {"server": "notes", "tool": "list_notes"}
    (tmp_path / "menu.txt").write_text("soup")
    code = "import sys; open('made', 'w').write(sys.argv[1])"
    setup = [
        {"run": [sys.executable, "-c", code, "{workdir} {seed}"]},
        {"call": {"server": "notes", "tool": "add_note", "arguments": {"text": "in {workdir}"}}},
    ]
    checks = [
        {"world": {**listed, "path": "$.folder", "equals": ["data", "made"]}},
        {"world": {**listed, "matches": r"in /.*plait-\w{8}"}},
        {"world": {**listed, "changed": False}},
    ]
    servers = {"notes": entry(str(NOTES), cwd="{workdir}")}
    files = {"data/menu.txt": "menu.txt"}
    cases = [{"name": "noted", "checks": checks, "setup": setup, "files": files}]
    suite = suite_in(tmp_path, cases, ["Done."], servers=servers, seed=3)
    (result,) = (await Watched(suite).run()).results
    assert result.outcome == "passed", result.failure
    assert not any((tmp_path / name).exists() for name in ("made", "data"))

    (tmp_path / "menu.txt").write_text("stew")
    assert (await Watched(suite, resume=True).run()).asked == ["noted"]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"run": "there-is-no-program now"}, "step 1, there-is-no-program: .*No such file"),
        ({"run": ["with\0", "null"]}, "embedded null byte"),
        ({"run": [sys.executable, "-c", "exit('full')"]}, "python3?[.0-9]*, ended with 1: full"),
        ({"run": [sys.executable, "-c", "exit(3)"]}, "ended with 3$"),
        (
            {"call": {"server": "sums", "tool": "add_numbers"}},
            "step 1, sums/add_numbers: .*missing",
        ),
        ({"call": {"server": "none", "tool": "x"}}, "step 1, none/x: .*none"),
        ({"call": {"server": "none", "tool": "y"}}, "step 1, none/y: the case has no servers"),
    ],
)
async def test_a_setup_that_fails_is_an_error_of_its_own(
    step: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    servers = {} if "no servers" in reason else {"sums": sums()}
    suite = suite_in(tmp_path, some_cases(1), SUM, setup=[step], servers=servers)
    (result,) = (await Watched(suite).run()).results
    assert result.outcome == "error"
    assert re.search(reason, result.failure), result.failure


async def test_files_that_are_missing_or_outside_are_errors(tmp_path: Path) -> None:
    suite = suite_in(tmp_path, some_cases(1), SUM, files={"../a": "script.json"})
    (result,) = (await Watched(suite).run()).results
    assert "'../a' is outside of the working folder" in result.failure
    missing = suite_in(tmp_path, some_cases(1), SUM, files={"a": "missing.txt"})
    with pytest.raises(ConfigError, match=r"missing\.txt cannot be read"):
        await Watched(missing).run()


async def test_a_healed_server_is_an_event_and_no_failure(tmp_path: Path) -> None:
    script = [{"calls": [{"name": "die_once", "arguments": {"file": "died"}}]}, "It is alive."]
    suite = noting(script, [{"no_tool_errors": True}, {"contains": "alive"}], tmp_path)
    (result,) = (await Watched(suite).run()).results
    assert (result.outcome, result.failure) == ("passed", "")
    assert result.heals == 1


async def test_checks_and_traits_may_be_functions_beside_the_suite(tmp_path: Path) -> None:
    code = """\
async def free(evidence, seats):
    found = await evidence.call_tool("sums", "add_numbers", {"a": 1, "b": seats})
    return None if found == "4" else f"{found} are free"

def is_short(text):
    return len(text) < 5
"""
    (tmp_path / "booking_checks.py").write_text(code)
    check = {"python": {"call": "booking_checks:free", "with": {"seats": 3}}}
    rubric = [{"name": "short", "call": "booking_checks:is_short"}]
    cases = [{"name": "checked", "checks": [check]}, {"name": "traits", "rubric": rubric}]
    watched = await Watched(suite_in(tmp_path, cases, SUM)).run()
    assert watched.outcomes == {"checked": "passed", "traits": "failed"}


async def test_seeds_are_fixed(tmp_path: Path) -> None:
    with OpenAIServer(lambda body: f"seed {body.get('seed')}") as server:
        cases = [{"name": "seeded", "checks": [{"matches": "seed (7|8)"}]}]
        model = f"{server.base_url}#test-model"
        suite = suite_in(tmp_path, cases, SUM, model=model, servers={}, seed=7, repeat=2)
        watched = await Watched(suite).run()
    assert sorted(result.answer for result in watched.results) == ["seed 7", "seed 8"]
    assert sorted(result.seed or 0 for result in watched.results) == [7, 8]


@pytest.mark.parametrize(
    ("script", "limits", "status"),
    [
        (SUM, {"turns": 1}, "limit"),
        ([{**ADD, "delay": 0}, {"text": "late", "delay": 30}], {"seconds": 2}, "timeout"),
        ([ADD, {"text": "It is 4", "stop": "length"}], {}, "truncated"),
    ],
)
async def test_stopped_runs_fail_and_keep_trace_and_usage(
    script: list[Any], limits: dict[str, Any], status: str, tmp_path: Path
) -> None:
    suite = suite_in(tmp_path, some_cases(1), script, limits=limits)
    (result,) = (await Watched(suite).run()).results
    assert (result.outcome, result.status) == ("failed", status)
    assert result.failure.startswith("RecursionLimitAutoFail")
    assert result.completed_without_errors
    assert result.usage_metadata["GenerateAnswer"]["total_tokens"] > 0
    full = result.with_trace(tmp_path / "plait-report")
    assert "add_numbers" in full["raw_llm_response"]
    assert full["trace_messages"][0]["tool_calls"][0]["name"] == "add_numbers"


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"servers": {"gone": {"url": "http://127.0.0.1:9/mcp", "connect_timeout": 1}}}, "gone"),
        ({"servers": {}, "model": "scripted:missing.json"}, "missing.json"),
        ({"servers": {}, "model": "scripted:short.json"}, "ScriptEndError"),
    ],
)
async def test_what_cannot_be_used_is_no_wrong_answer(
    settings: dict[str, Any], named: str, tmp_path: Path
) -> None:
    (tmp_path / "short.json").write_text("[]")
    suite = suite_in(tmp_path, some_cases(1), ["No idea."], **settings)
    (result,) = (await Watched(suite).run()).results
    assert result.outcome == "error"
    assert named in result.failure
    (tmp_path / "missing.json").write_text(json.dumps(["It is 42."]))
    again = await Watched(suite, resume=True).run()
    assert again.outcomes == {"case-0": "passed" if named == "missing.json" else "error"}


def test_shards_share_nothing_and_lose_nothing(tmp_path: Path) -> None:
    suite = read_suite(suite_in(tmp_path, some_cases(5), SUM, repeat=2, judge=["a", "b"]))
    parts = [
        {run.key for run in plan_runs(suite, RunOptions(report=tmp_path, shard=(part, 3)))}
        for part in (1, 2, 3)
    ]
    whole = {run.key for run in plan_runs(suite, RunOptions(report=tmp_path))}
    assert len(whole) == 20
    assert set.union(*parts) == whole
    assert sum(map(len, parts)) == 20
