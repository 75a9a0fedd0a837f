"""What `plait verify` prints: progress, stages, tables and comparisons."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.text import Text

from plait._support.files import write_private
from plait.cli.terminal import cell, plain_table, print_aside, print_json, print_rich, visible
from plait.verification.html_report import report_page
from plait.verification.report import (
    Comparison,
    PassRate,
    detectable_text,
    difference_text,
    junit_xml,
    markdown_summary,
    pass_rate,
    pass_rates,
    share,
)
from plait.verification.report import compare as compare_runs
from plait.verification.results import CaseResult
from plait.verification.runner import Progress

_COLOURS = {"passed": "green", "failed": "red", "error": "yellow", "overruled": "yellow"}

_QUIET_SECONDS = 30.0
"""How often a log gets a line of progress."""

MAX_REASONS = 10
"""More reasons are in the report; a terminal would scroll."""


def print_stages(result: CaseResult) -> None:
    """Print the answer of a run, and what each stage and check found."""
    click.echo(visible(result.answer) if result.answer else "(no answer)")
    table = plain_table("stage", "outcome", "why")
    for stage in result.stages:
        rows = [(stage.name, stage.outcome, stage.message)]
        if stage.name == "Checks":
            for check in result.checks:
                outcome = "passed" if check["passed"] else "failed"
                rows.append((f"  {check['name']}", outcome, check["message"]))
        for name, outcome, message in rows:
            table.add_row(cell(name), Text(outcome, _COLOURS[outcome]), cell(message))
    print_rich(table)
    facts = [f"{result.turns} turns", f"{result.tokens} tokens", f"{result.seconds:.1f} s"]
    if result.heals:
        facts.append(f"{result.heals} servers healed")
    if result.cost_usd is not None:
        facts.append(f"{result.cost_usd:.4f} USD")
    name = f"{result.case} by {result.variant}"
    click.echo(f"{result.outcome}: {visible(name)}  ({', '.join(facts)})")


class ProgressPrinter:
    """Shows results as they come: each on a terminal, else how far it is, every half minute."""

    def __init__(self) -> None:
        self._every = sys.stderr.isatty()
        self._last = time.monotonic()

    def show(self, result: CaseResult, progress: Progress) -> None:
        """Show one result."""
        if self._every:
            reason = f": {result.failure}" if result.outcome != "passed" else ""
            text = f"{result.case} #{result.repeat}{reason}  ({progress_label(progress)})"
            print_aside(result.outcome, text, colour=_COLOURS[result.outcome])
        elif time.monotonic() - self._last > _QUIET_SECONDS:
            self._last = time.monotonic()
            print_aside("progress", progress_label(progress), colour="blue")


def progress_label(progress: Progress) -> str:
    """Return how far a suite is: `12 of 40, 3 min left, 0.12 USD`."""
    parts = [f"{progress.done} of {progress.total}"]
    left = progress.seconds_left
    if left is not None and progress.done < progress.total:
        parts.append(f"{left:.0f} s left" if left < 90 else f"{left / 60:.0f} min left")
    if progress.cost_usd:
        parts.append(f"{progress.cost_usd:.2f} USD")
    return ", ".join(parts)


def print_report(
    name: str,
    results: Sequence[CaseResult],
    folder: Path,
    before: Sequence[CaseResult] | None,
    threshold: float,
    *,
    as_json: bool,
) -> bool:
    """Write and print the report; returns whether it passes."""
    (folder / "junit.xml").write_text(junit_xml(name, results), encoding="utf-8")
    (folder / "summary.md").write_text(markdown_summary(name, results), encoding="utf-8")
    write_private(folder / "report.html", report_page(name, results, folder=folder))
    whole = pass_rate("all", results)
    models = pass_rates(results, lambda result: [result.variant])
    tags = pass_rates(results, lambda result: result.tags)
    comparison = None if before is None else compare_runs(before, results, by_model=True)
    reasons: list[str] = []
    if whole.errors:
        what = "run" if whole.errors == 1 else "runs"
        reasons.append(f"{whole.errors} {what} could not be decided")
    if (whole.rate or 0.0) < threshold:
        runs = f"{whole.passed} of {whole.passed + whole.failed} runs passed"
        reasons.append(f"{runs}, and the threshold is {100 * threshold:g} %")
    if comparison is not None and comparison.regressed:
        names = ", ".join(comparison.regressed)
        reasons.append(f"worse than the baseline, beyond chance: {names}")
    elif comparison is not None and comparison.is_worse:
        text = "all cases together are worse than the baseline, beyond chance"
        reasons.append(f"{text} (p = {comparison.p_value:.3g})")
    if as_json:
        print_json(
            {
                "suite": name,
                "verified": not reasons,
                "reasons": reasons,
                "total": asdict(whole),
                "models": [asdict(rate) for rate in models],
                "tags": [asdict(rate) for rate in tags],
                "comparison": None if comparison is None else asdict(comparison),
                "report": str(folder),
            }
        )
    else:
        _print_rates([*models, *tags, *([whole] if len(models) + len(tags) > 1 else [])])
        _print_reasons(results)
        for line in [] if comparison is None else comparison_lines(comparison):
            click.echo(visible(line))
        click.echo(f"report: {visible(str(folder))}")
        for reason in reasons:
            print_aside("not verified", reason, colour="red")
    return not reasons


def _print_reasons(results: Sequence[CaseResult]) -> None:
    """Print why cases did not pass: each reason once, the most frequent first."""
    cases: dict[tuple[str, str], list[str]] = {}
    for result in results:
        if result.outcome != "passed":
            cases.setdefault((result.outcome, result.failure), []).append(result.case)
    frequent = sorted(cases.items(), key=lambda item: -len(item[1]))
    for (outcome, reason), names in frequent[:MAX_REASONS]:
        others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
        print_aside(outcome, f"{names[0]}{others}: {reason}", colour=_COLOURS[outcome])
    if more := frequent[MAX_REASONS:]:
        print_aside("note", f"{len(more)} further reasons are in the report", colour="cyan")


def _print_rates(rates: Sequence[PassRate]) -> None:
    table = plain_table(
        "group", "passed", "pass@1 (95 %)", "pass@k", "pass^k", "errors", "s", "tokens", "USD"
    )
    for rate in rates:
        interval = f"{rate.interval.low:.0%}–{rate.interval.high:.0%}"
        table.add_row(
            cell(rate.name),
            f"{rate.passed} of {rate.passed + rate.failed}",
            f"{share(rate.rate)} ({interval})",
            f"{share(rate.pass_at_k)} (k={rate.k})",
            share(rate.pass_hat_k),
            str(rate.errors),
            f"{rate.seconds:.1f}",
            str(rate.tokens),
            "–" if rate.cost_usd is None else f"{rate.cost_usd:.2f}",
        )
    print_rich(table)


def comparison_lines(found: Comparison) -> list[str]:
    """Return how two runs differ, as lines."""
    lines = [f"{found.cases} cases in both; better: {len(found.better)}, worse: {len(found.worse)}"]
    lines += [f"  worse: {name}" for name in found.worse]
    lines += [f"  better: {name}" for name in found.better]
    lines += [f"  worse beyond chance by its own runs: {name}" for name in found.regressed]
    if found.missing:
        lines.append(f"  in one report only: {', '.join(found.missing)}")
    if found.difference is not None:
        lines.append(f"{difference_text(found.difference)}, p = {found.p_value:.3g}")
        lines.append(detectable_text(found.difference))
    return lines
