"""`plait trace`: look at what agents did."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.click_classes import ExampleCommand, ExampleGroup
from plait.cli.exits import Exit
from plait.cli.options import common_options, json_option

if TYPE_CHECKING:
    from plait.traces.trace import Trace

_FORMATS = ("markdown", "raw", "messages", "events", "metrics")

_run_option = click.option(
    "--run", metavar="ID", help="The run, or the beginning of its id; by default the last one."
)


@click.group(
    cls=ExampleGroup,
    examples="""
    plait trace list                      the runs in *.jsonl of this folder
    plait trace show run.jsonl            what happened, step by step
    plait trace diff before.jsonl after.jsonl
    """,
)
@common_options
def trace() -> None:
    """Look at the traces that runs of agents leave."""


@trace.command(
    name="list",
    cls=ExampleCommand,
    examples="""
    plait trace list
    plait trace list traces/ run.jsonl --json
    """,
)
@click.argument("files", metavar="[FILE]…", nargs=-1, type=click.Path(exists=True))
@json_option
@common_options
def list_runs(files: tuple[str, ...], as_json: bool) -> None:
    """List the runs in files, or in the *.jsonl files of folders; by default, of this one.

    Files of a folder that are no traces are left out.
    """
    from plait.cli.terminal import console_for, print_aside, print_json, print_rich

    runs = [found for file in files or (".",) for found in _runs_at(Path(file))]
    if as_json:
        print_json([{"file": file, **_summary(one)} for file, one in runs])
        return
    if not runs:
        print_aside("note", "there are no traces here", colour="cyan")
        return
    from plait.cli.trace_view import runs_table

    print_rich(runs_table(runs, console_for(sys.stdout).width))


@trace.command(
    cls=ExampleCommand,
    examples="""
    plait trace show run.jsonl
    plait trace show run.jsonl --run 3f2a --full
    """,
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@_run_option
@click.option("--full", is_flag=True, help="Show whole texts, arguments and results.")
@json_option
@common_options
def show(file: str, run: str | None, full: bool, as_json: bool) -> None:
    """Show what happened in a run, step by step, with times and tokens.

    A run that was killed is shown as far as it came.
    """
    from plait.cli.terminal import print_json, print_rich
    from plait.traces.read import read_trace

    found = read_trace(file, run)
    if as_json:
        print_json({**_summary(found), "events": _events(found)})
        return
    from plait.cli.trace_view import run_view

    for part in run_view(found, full=full):
        print_rich(part)


@trace.command(
    cls=ExampleCommand,
    examples="""
    plait trace diff before.jsonl after.jsonl
    plait trace diff runs.jsonl runs.jsonl --run 3f2a --other-run 9c1d
    """,
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.argument("other", type=click.Path(exists=True, dir_okay=False))
@_run_option
@click.option("--other-run", metavar="ID", help="The same for the second file.")
@json_option
@common_options
@click.pass_context
def diff(
    ctx: click.Context,
    file: str,
    other: str,
    run: str | None,
    other_run: str | None,
    as_json: bool,
) -> None:
    """Compare two runs: what was asked, said, called and answered; not ids, times and usage.

    Ends with code 1 when they differ.
    """
    from plait.cli.terminal import print_json, print_text
    from plait.traces.compare import differences
    from plait.traces.read import read_trace

    found = differences(read_trace(file, run), read_trace(other, other_run), names=(file, other))
    if as_json:
        print_json({"same": not found, "diff": found})
    elif found:
        print_text("\n".join(found))
    if found:
        ctx.exit(Exit.TOOL_FAILED)


@trace.command(
    cls=ExampleCommand,
    examples="""
    plait trace export run.jsonl > run.md
    plait trace export run.jsonl --format raw --output run.txt
    """,
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@_run_option
@click.option(
    "--format", "kind", type=click.Choice(_FORMATS), default="markdown", show_default=True
)
@click.option("--output", metavar="FILE", help="Write to this file instead of stdout.")
@common_options
def export(file: str, run: str | None, kind: str, output: str | None) -> None:
    """Write a run as a document.

    "raw" is the text that graders read; "messages", "events" and "metrics" are JSON.
    """
    from plait.cli.terminal import print_text
    from plait.traces.read import read_trace

    document = _document(read_trace(file, run), kind)
    if output:
        Path(output).write_text(document, "utf-8", "backslashreplace")
    else:
        print_text(document)


def _document(found: Trace, kind: str) -> str:
    import json

    from plait.traces.markdown import trace_to_markdown
    from plait.traces.messages.lists import messages_to_json
    from plait.traces.metrics import extract_agent_metrics

    match kind:
        case "raw":
            return found.raw_trace
        case "messages":
            return messages_to_json(found.messages, indent=2)
        case "events":
            return json.dumps(_events(found), indent=2, ensure_ascii=False)
        case "metrics":
            metrics = extract_agent_metrics(found.messages, limit_reached=found.limit_reached)
            return json.dumps(metrics.to_dict(), indent=2)
        case _:
            return trace_to_markdown(found)


def _runs_at(path: Path) -> list[tuple[str, Trace]]:
    from plait.errors import TraceFormatError
    from plait.traces.read import read_traces

    if not path.is_dir():
        return [(str(path), one) for one in read_traces(path)]
    found: list[tuple[str, Trace]] = []
    for file in sorted(path.rglob("*.jsonl")):
        try:
            found += [(str(file), one) for one in read_traces(file)]
        except (TraceFormatError, OSError):  # some other file of lines
            continue
    return found


def _summary(found: Trace) -> dict[str, object]:
    started = found.started
    return {
        "run": found.run,
        "began": started.time if started else None,
        "interface": started.interface if started else None,
        "model": found.actual_model,
        "question_hash": started.question_hash if started else None,
        "task_id": started.task_id if started else None,
        "status": found.status,
        "turns": found.turns,
        "tool_calls": len(found.calls),
        "usage": found.usage.to_dict(),
        "seconds": found.seconds,
        "damaged": found.damaged,
    }


def _events(found: Trace) -> list[object]:
    import json

    from plait.traces.codec import line_from_event

    return [json.loads(line_from_event(event)) for event in found.events]
