"""`plait verify`: run a suite of cases, and report how often they pass."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.base import ExampleGroup, json_option, repeatable, settings_of
from plait.cli.exits import Exit
from plait.cli.terminal import cell, plain_table, print_aside, print_json, print_rich, visible
from plait.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from plait.verification.report import Comparison, PassRate
    from plait.verification.results import CaseResult

_STARTER = """\
# A suite: cases that an agent answers, and checks of its answers.
# Run it with: plait verify {name}
name: starter
defaults:
  model: scripted:{script}   # no key needed; any model of `plait run --model` works here
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
        plait verify compare before after
    """


@verify.command("run")
@click.argument("suite", type=click.Path(exists=True, dir_okay=False))
@repeatable("--model", "models", "MODEL", "Use this model instead of those of the suite")
@repeatable("--engine", "engines", "ENGINE", "Use this engine instead of those of the suite")
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
@click.option("--resume", is_flag=True, help="Keep the finished runs of the report.")
@click.option("--shard", metavar="I/N", help="Run part I of N; `plait verify merge` joins them.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 1000),
    default=8,
    show_default=True,
    metavar="N",
    help="Runs at once.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=1.0,
    show_default=True,
    metavar="SHARE",
    help="The share of runs that must pass.",
)
@click.option("--baseline", metavar="PATH", help="Fail if cases are worse than in this report.")
@json_option
@click.pass_context
def run_suite(
    ctx: click.Context,
    suite: str,
    models: tuple[str, ...],
    engines: tuple[str, ...],
    repeat: int | None,
    cases: tuple[str, ...],
    tags: tuple[str, ...],
    report: str,
    resume: bool,
    shard: str | None,
    concurrency: int,
    threshold: float,
    baseline: str | None,
    as_json: bool,
) -> None:
    """Run the cases of a suite, and report how often they pass.

    The report folder gets results.jsonl, traces, junit.xml and summary.md. Runs
    that could not be decided, because a server, a model or a judge failed, are
    errors; they count neither as passed nor as failed, and are run again with
    --resume.

    Exits with code 13 if the pass rate is below --threshold, if cases are worse
    than in the --baseline beyond chance, or if a run could not be decided.

    Examples:
        plait verify suite.yaml
        plait verify suite.yaml --model anthropic:claude-haiku-5-5 --repeat 5
        plait verify suite.yaml --shard 1/4 --report out-1
        plait verify suite.yaml --resume --baseline main-report
    """
    import anyio

    from plait.verification.read import read_suite
    from plait.verification.results import read_results
    from plait.verification.runner import RunOptions, SuiteRunner

    loaded = read_suite(suite)
    options = RunOptions(
        report=Path(report),
        models=models,
        engines=engines,
        repeat=repeat,
        cases=cases,
        tags=tags,
        resume=resume,
        shard=_shard(shard),
        concurrency=concurrency,
    )
    before = None if baseline is None else read_results(baseline)
    shown = not settings_of(ctx).quiet and sys.stderr.isatty()
    runner = SuiteRunner(loaded, options, on_result=_show if shown else None)
    results = anyio.run(runner.run)
    _report(loaded.name, results, Path(report), before, threshold, as_json=as_json)


@verify.command()
@click.argument("reports", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--report", type=click.Path(file_okay=False), required=True, help="The new folder.")
@click.option("--threshold", type=click.FloatRange(0, 1), default=1.0, show_default=True)
@json_option
def merge(reports: tuple[str, ...], report: str, threshold: float, as_json: bool) -> None:
    """Join the reports of several shards.

    Examples:
        plait verify merge out-1 out-2 out-3 out-4 --report out
    """
    from plait.verification.results import ResultFile, merged, read_results

    results = merged(read_results(one) for one in reports)
    folder = Path(report)
    folder.mkdir(parents=True, exist_ok=True)
    file = ResultFile(folder)
    file.path.unlink(missing_ok=True)
    for result in results:
        file.append(result)
    _report(folder.name, results, folder, None, threshold, as_json=as_json)


@verify.command()
@click.argument("first", type=click.Path(exists=True))
@click.argument("second", type=click.Path(exists=True))
@json_option
def compare(first: str, second: str, as_json: bool) -> None:
    """Compare two reports, case by case.

    Examples:
        plait verify compare before after
    """
    from dataclasses import asdict

    from plait.verification.report import compare as compare_runs
    from plait.verification.results import read_results

    found = compare_runs(read_results(first), read_results(second))
    if as_json:
        print_json(asdict(found))
        return
    for line in _comparison_lines(found):
        click.echo(visible(line))


@verify.command()
@click.argument("folder", type=click.Path(file_okay=False), default=".")
def init(folder: str) -> None:
    """Write a suite that passes without a key, to start from.

    Examples:
        plait verify init
        plait verify init tests/agents
    """
    place = Path(folder)
    suite, script = place / "suite.yaml", place / "script.json"
    for path in (suite, script):
        if path.exists():
            raise ConfigError(f"{path} is there already")
    place.mkdir(parents=True, exist_ok=True)
    script.write_text(_SCRIPT, encoding="utf-8")
    text = _STARTER.format(name=suite, script=script, python=json.dumps(sys.executable))
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


def _shard(text: str | None) -> tuple[int, int]:
    if text is None:
        return (1, 1)
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise click.BadParameter(f"{text!r} is not I/N, such as 1/4", param_hint="--shard")
    return int(part), int(parts)


def _show(result: CaseResult) -> None:
    colour = {"passed": "green", "failed": "red", "error": "yellow"}[result.outcome]
    reason = f": {result.failure}" if result.outcome != "passed" else ""
    print_aside(result.outcome, f"{result.case} #{result.repeat}{reason}", colour=colour)


def _report(
    name: str,
    results: Sequence[CaseResult],
    folder: Path,
    before: Sequence[CaseResult] | None,
    threshold: float,
    *,
    as_json: bool,
) -> None:
    from dataclasses import asdict

    from plait.verification.report import (
        compare as compare_runs,
    )
    from plait.verification.report import junit_xml, markdown_summary, pass_rate, pass_rates

    (folder / "junit.xml").write_text(junit_xml(name, results), encoding="utf-8")
    (folder / "summary.md").write_text(markdown_summary(name, results), encoding="utf-8")
    whole = pass_rate("all", results)
    models = pass_rates(results, lambda result: [result.model])
    tags = pass_rates(results, lambda result: result.tags)
    comparison = None if before is None else compare_runs(before, results)
    if as_json:
        print_json(
            {
                "suite": name,
                "total": asdict(whole),
                "models": [asdict(rate) for rate in models],
                "tags": [asdict(rate) for rate in tags],
                "comparison": None if comparison is None else asdict(comparison),
                "report": str(folder),
            }
        )
    else:
        print_rich(_table([*models, *tags, *([whole] if len(models) + len(tags) > 1 else [])]))
        for line in [] if comparison is None else _comparison_lines(comparison):
            click.echo(visible(line))
        click.echo(f"report: {visible(str(folder))}")
    regressed = comparison is not None and _is_worse(comparison)
    if whole.errors or (whole.rate or 0.0) < threshold or regressed:
        raise SystemExit(Exit.NOT_VERIFIED)


def _is_worse(comparison: Comparison) -> bool:
    return len(comparison.worse) > len(comparison.better) and comparison.p_value < 0.05


def _table(rates: Sequence[PassRate]) -> Table:
    from plait.verification.report import share

    table = plain_table(
        "group", "passed", "pass@1 (95 %)", "pass@k", "pass^k", "errors", "s", "tok"
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
        )
    return table


def _comparison_lines(found: Comparison) -> list[str]:
    lines = [f"{found.cases} cases in both; better: {len(found.better)}, worse: {len(found.worse)}"]
    lines += [f"  worse: {name}" for name in found.worse]
    lines += [f"  better: {name}" for name in found.better]
    if found.missing:
        lines.append(f"  in one report only: {', '.join(found.missing)}")
    if found.difference is not None:
        low, high = found.difference.interval.low, found.difference.interval.high
        lines.append(
            f"difference {found.difference.mean:+.1%} (95 %: {low:+.1%} to {high:+.1%}), "
            f"p = {found.p_value:.3g}; this suite could show {found.difference.detectable:.1%}"
        )
    return lines
