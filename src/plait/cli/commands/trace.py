"""`plait trace`: list, show and compare traces of agent runs."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

import click

from plait._support.files import write_private
from plait.cli.base import ExampleGroup, json_option
from plait.cli.exits import Exit
from plait.cli.terminal import console_for, print_aside, print_json, print_rich, print_text
from plait.errors import TraceFormatError
from plait.traces.codec import line_from_event
from plait.traces.differences import differences
from plait.traces.file import read_trace, read_traces
from plait.traces.messages.message import messages_to_json
from plait.traces.metrics import extract_agent_metrics
from plait.traces.trace import Trace
from plait.traces.trace_markdown import trace_to_markdown

_TRACE_FILE = click.Path(exists=True, dir_okay=False)
_FORMATS = ("markdown", "html", "raw", "messages", "events", "metrics")

_other_run_option = click.option("--other-run", metavar="ID", help="The same for the second file.")
_run_option = click.option(
    "--run", metavar="ID", help="The id of the run, or its beginning; by default the last run."
)


@click.group(cls=ExampleGroup)
def trace() -> None:
    """List, show and compare traces of agent runs.

    Examples:
        plait trace list                      the runs in *.jsonl of this folder
        plait trace show run.jsonl            the steps of a run
        plait trace diff before.jsonl after.jsonl
        plait trace export --html run.jsonl -o run.html
    """


@trace.command(name="list")
@click.argument("files", metavar="[FILE]…", nargs=-1, type=click.Path(exists=True))
@json_option
def list_runs(files: tuple[str, ...], as_json: bool) -> None:
    """List the runs in files, or in the *.jsonl files of folders; by default, of this folder.

    Files of a folder that are not traces are skipped.

    Examples:
        plait trace list
        plait trace list traces/ run.jsonl --json
    """
    runs: list[tuple[str, Trace]] = []
    for path in map(Path, files or (".",)):
        if not path.is_dir():
            runs += [(str(path), run) for run in read_traces(path)]
            continue
        for file in sorted(path.rglob("*.jsonl")):
            with suppress(TraceFormatError, OSError):  # not a trace
                runs += [(str(file), run) for run in read_traces(file)]
    if as_json:
        print_json([{"file": file, **_summary(run)} for file, run in runs])
        return
    if not runs:
        print_aside("note", "no traces found", colour="cyan")
        return
    from plait.cli.trace_view import runs_table

    print_rich(runs_table(runs, console_for(sys.stdout).width))


@trace.command()
@click.argument("file", type=_TRACE_FILE)
@_run_option
@click.option("--full", is_flag=True, help="Show full texts, arguments and results.")
@json_option
def show(file: str, run: str | None, full: bool, as_json: bool) -> None:
    """Show the steps of a run, with times and tokens.

    A run that was killed is shown up to its last event.

    Examples:
        plait trace show run.jsonl
        plait trace show run.jsonl --run 3f2a --full
    """
    recorded = read_trace(file, run)
    if as_json:
        print_json({**_summary(recorded), "events": _events(recorded)})
        return
    from plait.cli.trace_view import run_view

    for part in run_view(recorded, full=full):
        print_rich(part)


@trace.command()
@click.argument("file", type=_TRACE_FILE)
@click.argument("other", type=_TRACE_FILE)
@_run_option
@_other_run_option
@json_option
@click.pass_context
def diff(
    ctx: click.Context, file: str, other: str, run: str | None, other_run: str | None, as_json: bool
) -> None:
    """Compare the messages and tool calls of two runs, without ids, times and usage.

    Exits with code 1 if they differ.

    Examples:
        plait trace diff before.jsonl after.jsonl
        plait trace diff runs.jsonl runs.jsonl --run 3f2a --other-run 9c1d
    """
    lines = differences(read_trace(file, run), read_trace(other, other_run), names=(file, other))
    if as_json:
        print_json({"same": not lines, "diff": lines})
    elif lines:
        print_text("\n".join(lines))
    if lines:
        ctx.exit(Exit.TOOL_FAILED)


@trace.command()
@click.argument("file", type=_TRACE_FILE)
@click.argument("other", type=_TRACE_FILE, required=False)
@_run_option
@_other_run_option
@click.option(
    "--format",
    "kind",
    type=click.Choice(_FORMATS),
    default="markdown",
    show_default=True,
    help="The format.",
)
@click.option("--html", is_flag=True, help="Export a page for browsers: the same as --format html.")
@click.option(
    "--tape", type=_TRACE_FILE, help="Show the messages of the calls from this tape (--html)."
)
@click.option("-o", "--output", metavar="FILE", help="Write to this file instead of stdout.")
def export(
    file: str,
    other: str | None,
    run: str | None,
    other_run: str | None,
    kind: str,
    html: bool,
    tape: str | None,
    output: str | None,
) -> None:
    """Export a run as a document, or two runs side by side as a page.

    "html" is one file that needs nothing else: a page with the run as conversation and as
    waterfall, or with two runs side by side. "raw" is the plain text for graders; "messages",
    "events" and "metrics" are JSON.

    Examples:
        plait trace export run.jsonl > run.md
        plait trace export --html run.jsonl -o run.html
        plait trace export --html before.jsonl after.jsonl -o compared.html
        plait trace export run.jsonl --format raw --output run.txt
    """
    recorded = read_trace(file, run)
    if html or kind == "html":
        second = None if other is None else read_trace(other, other_run)
        document = _page(recorded, second, (file, other or ""), tape)
    elif other is not None:
        raise click.UsageError("two runs are exported only with --html")
    else:
        match kind:
            case "raw":
                document = recorded.raw_trace
            case "messages":
                document = messages_to_json(recorded.messages, indent=2)
            case "events":
                document = json.dumps(_events(recorded), indent=2, ensure_ascii=False)
            case "metrics":
                limit = recorded.limit_reached
                metrics = extract_agent_metrics(recorded.messages, limit_reached=limit)
                document = json.dumps(metrics.to_dict(), indent=2)
            case _:
                document = trace_to_markdown(recorded)
    if output:
        write_private(Path(output), document)
    else:
        print_text(document)


def _page(recorded: Trace, other: Trace | None, files: tuple[str, str], tape: str | None) -> str:
    if other is not None:
        from plait.html.compare import compare_page

        names = [Path(file).name for file in files]
        if names[0] == names[1]:
            names = [f"{names[0]} {recorded.run[:8]}", f"{names[1]} {other.run[:8]}"]
        return compare_page(recorded, other, names=(names[0], names[1]))
    from plait.html.conversation import RunView, run_page

    if tape is None:
        return run_page(recorded)
    from plait.client.transports.tape import read_tape
    from plait.viewer.library import wire_of

    return run_page(recorded, view=RunView(wire=wire_of(recorded, read_tape(tape))))


def _summary(recorded: Trace) -> dict[str, object]:
    started = recorded.started
    return {
        "run": recorded.run,
        "began": started and started.time,
        "interface": started and started.interface,
        "model": recorded.actual_model,
        "question_hash": started and started.question_hash,
        "task_id": started and started.task_id,
        "status": recorded.status,
        "turns": recorded.turns,
        "tool_calls": len(recorded.calls),
        "usage": recorded.usage.to_dict(),
        "seconds": recorded.seconds,
        "damaged": recorded.damaged,
    }


def _events(recorded: Trace) -> list[object]:
    return [json.loads(line_from_event(event)) for event in recorded.events]
