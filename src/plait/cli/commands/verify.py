"""`plait verify`: run a suite of cases, and report how often they pass."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as ProgressBar
from rich.text import Text

from plait._support.files import write_private
from plait.cli.base import AMOUNT, ExampleGroup, json_option, limit, repeatable, settings_of
from plait.cli.exits import SIGNAL_EXITS, Exit, SignalName
from plait.cli.terminal import (
    cell,
    console_for,
    plain_table,
    print_aside,
    print_json,
    print_rich,
    visible,
)
from plait.errors import ConfigError
from plait.verification.html_report import report_page
from plait.verification.plan import RunOptions
from plait.verification.read import read_suite, suite_schema
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
from plait.verification.results import CaseResult, read_results
from plait.verification.runner import Progress, SuiteRunner

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
    """Shows how far a suite is: a bar on a terminal, below what did not pass; else sometimes."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._bar: ProgressBar | None = None
        self._task = TaskID(0)

    @contextmanager
    def running(self) -> Generator[None]:
        """Show a bar on a terminal during the block."""
        if not sys.stderr.isatty():
            yield
            return
        bar, text = BarColumn(), TextColumn("{task.description}")
        console = console_for(sys.stderr)
        with ProgressBar(
            bar, text, console=console, transient=True, redirect_stdout=False
        ) as shown:
            self._bar, self._task = shown, shown.add_task("the first runs …", total=None)
            yield
        self._bar = None

    def show(self, result: CaseResult, progress: Progress) -> None:
        """Show one result."""
        if self._bar is not None:
            if result.outcome != "passed":
                text = f" {result.case} #{result.repeat}: {result.failure}"
                colour = f"bold {_COLOURS[result.outcome]}"
                # By the bar, which erases itself before: click would write behind it.
                self._bar.print(Text.assemble((f"{result.outcome}:", colour), visible(text)))
            self._bar.update(
                self._task,
                total=progress.total,
                completed=progress.done,
                description=progress_label(progress),
            )
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
        click.echo(f"open: plait view {visible(shlex.quote(str(folder)))} --open")
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
        *("group", "passed", "pass@1 (95 %)", "pass@k", "pass^k", "errors", "s", "tokens", "USD"),
        dispensable=("tokens", "pass^k", "s", "USD", "pass@k", "passed"),
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


_C = TypeVar("_C", bound=Callable[..., Any])

_STARTER = """\
# yaml-language-server: $schema=suite.schema.json
# A suite: cases that an agent answers, and checks of its answers.
# Run it with: plait verify {name}
name: starter
defaults:
  model: scripted:script.json   # no key needed; any model of `plait run --model` works here
  servers:
    sums: {{command: {python}, args: [-m, plait.testing.server, --transport, stdio]}}
  repeat: 2
cases:
  - name: adds
    question: What is 20 + 22?
    checks:
      - contains: "42"
      - tool_called: {{name: add_numbers, arguments: {{a: 20, b: 22}}}}
      - no_tool_errors: true
      - max_turns: 3
"""
_SCRIPT = """\
[
  {"calls": [{"name": "add_numbers", "arguments": {"a": 20, "b": 22}}]},
  {"text": "It is 42."}
]
"""


class _SuiteGroup(ExampleGroup):
    """Takes the path of a suite where a command is expected, and runs it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_SuiteGroup)
def verify() -> None:
    """Run a suite of cases, and report how often they pass.

    Examples:
        plait verify init                       write a suite that passes offline
        plait verify suite.yaml --report out
        plait verify case suite.yaml adds       watch one case
        plait verify compare before after
    """


_threshold_option = click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=1.0,
    show_default=True,
    metavar="SHARE",
    help="The share of runs that must pass.",
)
_baseline_option = click.option(
    "--baseline", metavar="PATH", help="Fail if cases are worse than in this report."
)


def _selection_options(command: _C) -> _C:
    for name, metavar, what in (
        ("judge", "MODEL", "judge"),
        ("engine", "ENGINE", "engine"),
        ("model", "MODEL", "model"),
    ):
        about = f"Use this {what} instead of those of the suite"
        command = repeatable(f"--{name}", f"{name}s", metavar, about)(command)
    return command


_CAPS = {"type": click.IntRange(1, 10_000)}


def _cap_options(command: _C) -> _C:
    for flag, about in (
        ("--per-server", "Runs at once that use one server.  [default: that of the suite]"),
        ("--per-model", "Runs at once of one model.  [default: that of the suite, or 4]"),
        ("--concurrency", "Runs at once, in all.  [default: that of the suite, or 8]"),
    ):
        command = limit(flag, "N", about, **_CAPS)(command)
    return command


def _read_shard(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, int]:
    if text is None:
        return (1, 1)
    part, _slash, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise click.BadParameter(f"{text!r} is not I/N, such as 1/4", param_hint="--shard")
    return int(part), int(parts)


@verify.command("run")
@click.argument("suite", type=click.Path(exists=True, dir_okay=False))
@_selection_options
@limit("--repeat", "N", "Runs of each case.", **_CAPS)
@repeatable("--case", "cases", "NAME", "Run only this case")
@repeatable("--tag", "tags", "TAG", "Run only cases with this tag")
@click.option(
    "--report",
    type=click.Path(file_okay=False),
    default="plait-report",
    show_default=True,
    help="The folder of results, traces and reports.",
)
@click.option("--resume", is_flag=True, help="Keep the finished runs and answers of the report.")
@click.option(
    "--shard",
    metavar="I/N",
    callback=_read_shard,
    help="Run part I of N; `plait verify merge` joins them.",
)
@click.option(
    "--on",
    type=click.Choice(["ray"]),
    help="Run on the ray cluster of $RAY_ADDRESS, or of this machine; needs the extra ray.",
)
@_cap_options
@limit(
    "--max-cost",
    "USD",
    "Start no run after this cost, as far as prices are known.",
    name="max_cost_usd",
    type=AMOUNT,
)
@limit("--max-seconds", "SECONDS", "Start no run after this time.", type=AMOUNT)
@_threshold_option
@_baseline_option
@json_option
@click.pass_context
def run_suite(
    ctx: click.Context,
    suite: str,
    report: str,
    threshold: float,
    baseline: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run the cases of a suite, and report how often they pass.

    The report folder gets report.html, results.jsonl, traces, junit.xml and
    summary.md. Runs that could not be decided, because a server, a model or a
    judge failed, are errors; they count neither as passed nor as failed, and are
    run again with --resume.

    With --resume, what a model has answered is not asked again: add models,
    judges or repeats, or change checks, and only what is new is run.

    Ctrl-C ends what runs, and reports what there is.

    Exits with code 13 if the pass rate is below --threshold, if a case, or all
    cases together, are worse than in the --baseline beyond chance, if a run could
    not be decided, or if a budget ended before the last run.

    Examples:
        plait verify suite.yaml
        plait verify suite.yaml --model anthropic:claude-haiku-5-5 --repeat 5
        plait verify suite.yaml --shard 1/4 --report out-1
        plait verify suite.yaml --resume --judge openai:gpt-5.5
        plait verify suite.yaml --threshold 0.9 --baseline main-report --max-cost 5
    """
    loaded = read_suite(suite)
    on_ray = options.pop("on") == "ray"
    before = None if baseline is None else read_results(baseline)
    shown, printer = not settings_of(ctx).quiet, ProgressPrinter()
    runner = SuiteRunner(
        loaded,
        RunOptions(report=Path(report), **options),
        on_result=printer.show if shown else None,
        on_ray=on_ray,
    )
    with printer.running() if shown else nullcontext():
        results, signalled = _run(runner)
    if runner.missing:
        text = f"{runner.missing} runs were not made: {_STOPS[runner.stopped or 'interrupt']}"
        print_aside("warning", f"{text}; go on with --resume", colour="yellow")
    verified = print_report(loaded.name, results, Path(report), before, threshold, as_json=as_json)
    if signalled is not None:
        ctx.exit(SIGNAL_EXITS[signalled])
    if not verified or runner.missing:
        ctx.exit(Exit.NOT_VERIFIED)


_STOPS = {
    "cost": "the cost budget is used up",
    "time": "the time budget is used up",
    "interrupt": "it was interrupted",
}


def _run(runner: SuiteRunner) -> tuple[list[CaseResult], SignalName | None]:
    """Run a suite; the first Ctrl-C ends it with a report, a second one at once."""
    from plait.cli.run_agent import stopped_by_signals

    received: list[SignalName] = []

    async def main() -> list[CaseResult]:
        loop = asyncio.get_running_loop()
        with stopped_by_signals(received, lambda: loop.call_soon_threadsafe(runner.stop)):
            return await runner.run()

    return asyncio.run(main()), next(iter(received), None)


@verify.command("case")
@click.argument("suite", type=click.Path(exists=True, dir_okay=False))
@click.argument("name")
@_selection_options
@click.option(
    "--report", type=click.Path(file_okay=False), help="Keep the result and the trace here."
)
@click.pass_context
def run_case(
    ctx: click.Context,
    suite: str,
    name: str,
    report: str | None,
    **chosen: Any,
) -> None:
    """Run one case once, and watch it.

    Turns, tool calls and what each stage and check found go to the terminal as
    they happen. Exits with code 13 if the case does not pass.

    Examples:
        plait verify case suite.yaml adds
        plait verify case suite.yaml adds --model ollama:qwen3 --report out
    """
    from plait._support.redact import Redactor
    from plait.cli.run_agent import RunScreen
    from plait.models.providers import keys_in

    loaded = read_suite(suite)
    screen = RunScreen([], Redactor(keys_in(os.environ)), shown=True, moving=False)
    with tempfile.TemporaryDirectory(prefix="plait-") as folder:
        place, resume = Path(report or folder), report is not None
        options = RunOptions(report=place, cases=(name,), repeat=1, resume=resume, **chosen)
        runner = SuiteRunner(
            loaded,
            options,
            on_event=lambda _, event: screen.handle(event),
            stream=sys.stdout.isatty(),
        )
        results, signalled = _run(runner)
    for result in results:
        print_stages(result)
    if signalled is not None:
        ctx.exit(SIGNAL_EXITS[signalled])
    if not results or any(result.outcome != "passed" for result in results):
        ctx.exit(Exit.NOT_VERIFIED)


@verify.command("from-trace")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--run", "run_id", metavar="ID", help="The run of the file; by default the last.")
@click.option("--name", metavar="NAME", help="The name of the case.")
@click.option("--expect", metavar="TEXT", help="A text that a right answer contains.")
@click.option("--servers", metavar="PATH", help="The mcp.json of the case.")
def from_trace(
    file: str, run_id: str | None, name: str | None, expect: str | None, servers: str | None
) -> None:
    """Print a suite with a case from a run that went wrong.

    The case asks the same; its checks are drafts, to be edited.

    Examples:
        plait verify from-trace runs.jsonl --expect 42 > regression.yaml
    """
    from plait.traces.file import read_trace
    from plait.verification.from_trace import case_as_yaml, case_from_trace

    trace = read_trace(file, run_id)
    case = case_from_trace(trace, name=name, expect=expect)
    click.echo(case_as_yaml(case, trace, servers), nl=False)


@verify.command()
@click.argument("report", type=click.Path(exists=True))
@click.argument("labels", type=click.Path(exists=True, dir_okay=False))
@json_option
def agree(report: str, labels: str, as_json: bool) -> None:
    """Compare what judges decided with labels by hand.

    LABELS is a CSV or JSON Lines file with the column `case`, perhaps `model`
    and `repeat`, and a column for each label: a trait, or `passed`.

    Examples:
        plait verify agree plait-report labels.csv
    """
    from plait.verification.agreement import judge_agreement, read_labels

    found = judge_agreement(read_results(report), read_labels(labels))
    if as_json:
        print_json([asdict(one) for one in found])
        return
    table = plain_table(
        *("judge", "label", "agreed (95 %)", "kappa", "too kind", "too strict"),
        dispensable=("kappa", "too strict", "too kind"),
    )
    for one in found:
        interval = f"{one.interval.low:.0%}–{one.interval.high:.0%}"
        table.add_row(
            cell(one.judge),
            cell(one.label),
            f"{one.agreed} of {one.labels} ({interval})",
            f"{one.kappa:.2f}",
            cell(", ".join(one.too_kind) or "–"),
            cell(", ".join(one.too_strict) or "–"),
        )
    print_rich(table)


@verify.command()
@click.argument("reports", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--report", type=click.Path(file_okay=False), required=True, help="The new folder.")
@_threshold_option
@_baseline_option
@json_option
@click.pass_context
def merge(
    ctx: click.Context,
    reports: tuple[str, ...],
    report: str,
    threshold: float,
    baseline: str | None,
    as_json: bool,
) -> None:
    """Join the reports of several shards, with their traces.

    Examples:
        plait verify merge out-1 out-2 out-3 out-4 --report out
    """
    from plait.verification.answers import merge_reports

    before = None if baseline is None else read_results(baseline)
    folder = Path(report)
    results = merge_reports([Path(one) for one in reports], folder)
    if not print_report(folder.name, results, folder, before, threshold, as_json=as_json):
        ctx.exit(Exit.NOT_VERIFIED)


@verify.command()
@click.argument("first", type=click.Path(exists=True))
@click.argument("second", type=click.Path(exists=True))
@click.option("--html", metavar="FILE", help="Write a page with both runs of changed cases.")
@json_option
@click.pass_context
def compare(ctx: click.Context, first: str, second: str, html: str | None, as_json: bool) -> None:
    """Compare two reports, case by case.

    Exits with code 13 if the second is worse beyond chance.

    Examples:
        plait verify compare before after
        plait verify compare before after --html compared.html
    """
    before, after = read_results(first), read_results(second)
    found = compare_runs(before, after, by_model=True)
    if html is not None:
        from plait.verification.html_report import comparison_page

        sides = [
            (str(path), results, path if path.is_dir() else path.parent)
            for path, results in ((Path(first), before), (Path(second), after))
        ]
        write_private(Path(html), comparison_page(sides[0], sides[1]))
    if as_json:
        print_json(asdict(found))
    else:
        for line in comparison_lines(found):
            click.echo(visible(line))
    if found.is_worse:
        ctx.exit(Exit.NOT_VERIFIED)


@verify.command()
@click.argument("folder", type=click.Path(file_okay=False), default=".")
def init(folder: str) -> None:
    """Write a suite that passes without a key, to start from.

    Beside it is the JSON Schema of suites, with which editors complete and check it.

    Examples:
        plait verify init
        plait verify init tests/agents
    """
    place = Path(folder)
    suite, script, form = place / "suite.yaml", place / "script.json", place / "suite.schema.json"
    for path in (suite, script, form):
        if path.exists():
            raise ConfigError(f"{path} is there already")
    place.mkdir(parents=True, exist_ok=True)
    script.write_text(_SCRIPT, encoding="utf-8")
    form.write_text(json.dumps(suite_schema(), indent=2) + "\n", encoding="utf-8")
    text = _STARTER.format(name=suite, python=json.dumps(sys.executable))
    suite.write_text(text, encoding="utf-8")
    click.echo(f"wrote {suite}; run it with: plait verify {suite}")


@verify.command()
def schema() -> None:
    """Print the JSON Schema of suite files, for editors.

    Examples:
        plait verify schema > suite.schema.json
    """
    print_json(suite_schema())
