"""Results of a suite with their traces, for the tests of reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from plait.traces.codec import line_from_event
from plait.traces.trace import Trace
from plait.verification.results import CaseResult, ResultFile, StageResult
from tests.unit.html.sample_runs import HOSTILE, full_run, hostile_run


def write_trace(path: Path, trace: Trace) -> None:
    """Write a run as its recorder would."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line_from_event(event) for event in trace.events))


def case(name: str, outcome: Any, *, model: str = "langchain:small", repeat: int = 1,
         **more: Any) -> CaseResult:  # fmt: skip
    """Make the result of one run."""
    failed = outcome != "passed"
    message = "the answer does not contain 'Booked'"
    fields: dict[str, Any] = {
        "key": f"{name}-{model}-{repeat}",
        "case": name,
        "model": model,
        "engine": "langchain",
        "repeat": repeat,
        "outcome": outcome,
        "tags": ("travel",) if name.startswith("book") else ("weather", "fast"),
        "stages": (StageResult(name="Checks", outcome=outcome, message=message if failed else ""),),
        "checks": (
            {"name": "contains", "passed": not failed, "message": message if failed else ""},
            {"name": "no_tool_errors", "passed": name != "book a train", "message": ""},
        ),
        "answer": "Köln is warmer.",
        "tokens": 1200,
        "cost_usd": 0.002 * repeat,
        "seconds": 1.5 + repeat,
        "trace": f"traces/{name}-{model}-{repeat}.jsonl".replace(" ", "_").replace(":", "_"),
    }
    return CaseResult(**{**fields, **more})


def write_report(folder: Path, *, better: bool = False) -> list[CaseResult]:
    """Write a report of five cases, two models and three repeats, with traces of failures."""
    results: list[CaseResult] = []
    for model in ("langchain:small", "claude_tool:large"):
        for number, name in enumerate(("forecast", "compare cities", "book a train", "book two")):
            for repeat in (1, 2, 3):
                bad = number == 2 or (number == 3 and repeat == 2 and not better)
                bad = bad and not (better and model.endswith("large"))
                results.append(
                    case(name, "failed" if bad else "passed", model=model, repeat=repeat)
                )
    results.append(case("maps", "error", error="ConnectError: maps is down", trace=None))
    folder.mkdir(parents=True, exist_ok=True)
    traces = {passed: full_run(extra_turn=passed) for passed in (True, False)}
    for result in results:
        ResultFile(folder).append(result)
        if result.trace:
            write_trace(folder / result.trace, traces[result.outcome == "passed"])
    return results


def hostile_result(folder: Path) -> CaseResult:
    """Make a result whose every text attacks the page."""
    write_trace(folder / "traces" / "x.jsonl", hostile_run(big=50_000))
    return case(
        HOSTILE,
        "failed",
        model=HOSTILE,
        tags=(HOSTILE,),
        stages=(StageResult(name=HOSTILE, outcome="failed", message=HOSTILE),),
        checks=({"name": HOSTILE, "passed": False, "message": HOSTILE},),
        parsed={HOSTILE: HOSTILE},
        traits={HOSTILE: True},
        answer=HOSTILE * 200,
        error=HOSTILE,
        trace="traces/x.jsonl",
    )
