"""`plait verify`: run a suite of cases, and report how often they pass."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from plait._support.files import write_private
from plait.cli.base import ExampleGroup, json_option, repeatable, settings_of
from plait.cli.exits import Exit
from plait.cli.terminal import cell, plain_table, print_aside, print_json, print_rich, visible
from plait.errors import ConfigError

if TYPE_CHECKING:
    from plait.verification.results import CaseResult
    from plait.verification.runner import SuiteRunner

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


def _cap_options(command: _C) -> _C:
    for name, text in (
        ("--per-server", "Runs at once that use one server.  [default: that of the suite]"),
        ("--per-model", "Runs at once of one model.  [default: that of the suite, or 4]"),
        ("--concurrency", "Runs at once, in all.  [default: that of the suite, or 8]"),
    ):
        kind = click.IntRange(1, 10_000)
        command = click.option(name, type=kind, metavar="N", help=text)(command)
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
@click.option("--repeat", type=click.IntRange(1, 10_000), metavar="N", help="Runs of each case.")
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
@click.option(
    "--max-cost",
    "max_cost_usd",
    type=click.FloatRange(min=0, min_open=True),
    metavar="USD",
    help="Start no run after this cost, as far as prices are known.",
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Start no run after this time.",
)
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
    from plait.cli.verify_report import ProgressPrinter, print_report
    from plait.verification.plan import RunOptions
    from plait.verification.read import read_suite
    from plait.verification.results import read_results
    from plait.verification.runner import SuiteRunner

    loaded = read_suite(suite)
    on_ray = options.pop("on") == "ray"
    before = None if baseline is None else read_results(baseline)
    shown = not settings_of(ctx).quiet
    runner = SuiteRunner(
        loaded,
        RunOptions(report=Path(report), **options),
        on_result=ProgressPrinter().show if shown else None,
        on_ray=on_ray,
    )
    results, signalled = _run(runner)
    if runner.missing:
        text = f"{runner.missing} runs were not made: {_STOPS[runner.stopped or 'interrupt']}"
        print_aside("warning", f"{text}; go on with --resume", colour="yellow")
    verified = print_report(loaded.name, results, Path(report), before, threshold, as_json=as_json)
    if signalled is not None:
        ctx.exit(_SIGNALS[signalled])
    if not verified or runner.missing:
        ctx.exit(Exit.NOT_VERIFIED)


_STOPS = {
    "cost": "the cost budget is used up",
    "time": "the time budget is used up",
    "interrupt": "it was interrupted",
}
_SIGNALS = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: Exit.TERMINATED}


def _run(runner: SuiteRunner) -> tuple[list[CaseResult], signal.Signals | None]:
    """Run a suite; the first Ctrl-C ends it with a report, a second one at once."""
    received: list[signal.Signals] = []

    async def main() -> list[CaseResult]:
        loop = asyncio.get_running_loop()

        def stop(number: signal.Signals) -> None:
            received.append(number)
            runner.stop()
            for name in _SIGNALS:
                loop.remove_signal_handler(name)

        with contextlib.suppress(NotImplementedError):  # on Windows
            for number in _SIGNALS:
                loop.add_signal_handler(number, stop, number)
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
    from plait.cli.verify_report import print_stages
    from plait.models.providers import keys_in
    from plait.verification.plan import RunOptions
    from plait.verification.read import read_suite
    from plait.verification.runner import SuiteRunner

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
        ctx.exit(_SIGNALS[signalled])
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
    from dataclasses import asdict

    from plait.verification.agreement import judge_agreement, read_labels
    from plait.verification.results import read_results

    found = judge_agreement(read_results(report), read_labels(labels))
    if as_json:
        print_json([asdict(one) for one in found])
        return
    table = plain_table("judge", "label", "agreed (95 %)", "kappa", "too kind", "too strict")
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
    from plait.cli.verify_report import print_report
    from plait.verification.answers import merge_reports
    from plait.verification.results import read_results

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
    from dataclasses import asdict

    from plait.cli.verify_report import comparison_lines
    from plait.verification.report import compare as compare_runs
    from plait.verification.results import read_results

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
    from plait.verification.read import suite_schema

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
    from plait.verification.read import suite_schema

    print_json(suite_schema())
