"""`plait call`: call a tool and print what it returns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait.cli.click_classes import ExampleCommand
from plait.cli.exits import Exit, exit_code_for
from plait.cli.options import common_options, json_option, settings_of
from plait.errors import PermissionDeniedError, PlaitError, ToolNotFoundError

if TYPE_CHECKING:
    from plait.cli.content import Part
    from plait.cli.session import Opened
    from plait.client.calls.outcome import ToolResult
    from plait.client.catalog.tool import Tool


def _positive(_: click.Context, __: click.Parameter, value: float | None) -> float | None:
    if value is not None and not value > 0:
        raise click.BadParameter("must be more than 0 seconds")
    return value


@click.command(
    cls=ExampleCommand,
    examples="""
    plait call time get_current_time timezone=Europe/Berlin
    plait call files write_file path=notes.txt content=@draft.txt
    plait call shop search query=tea limit=5 filter.organic=true
    plait call shop order '{"items": [{"id": 7, "count": 2}]}'
    plait call shop order item=tea --answer size=large
    echo '{"timezone": "UTC"}' | plait call time get_current_time - --json
    """,
)
@click.argument("server")
@click.argument("tool")
@click.argument("arguments", nargs=-1, metavar="[JSON | KEY=VALUE]…")
@click.option(
    "--timeout",
    "timeout_seconds",
    type=float,
    callback=_positive,
    metavar="SECONDS",
    help="How long the tool may take.",
)
@click.option(
    "--save",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write images, audio and other data into this folder.",
)
@click.option(
    "--answer",
    "answers",
    multiple=True,
    metavar="KEY=VALUE",
    help="Answer a question of the server beforehand; may be repeated.",
)
@click.option(
    "--no-input",
    is_flag=True,
    help="Ask nobody: decline what --answer or --yes does not settle.",
)
@click.option("--yes", is_flag=True, help="Approve calls that the policy asks about.")
@json_option
@common_options
@click.pass_context
def call(
    ctx: click.Context,
    server: str,
    tool: str,
    arguments: tuple[str, ...],
    timeout_seconds: float | None,
    folder: Path | None,
    answers: tuple[str, ...],
    no_input: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Call a tool and print what it returns.

    Arguments are one JSON object, or pairs. The tool's schema decides what a
    pair means: text where it wants a string, else JSON. KEY:=JSON is always
    JSON, KEY=@FILE the text of a file, A.B=VALUE goes inside A, and a repeated
    KEY makes a list. A single "-" reads the JSON object from stdin.

    A server may ask something back during the call. On a terminal the question
    is put to you; elsewhere it is declined, unless --answer answers it.

    What the policy denies is not called; what it asks about is called when you
    say so on the terminal, or with --yes.

    With --json stdout holds one JSON object, also when the call fails.
    """
    from plait.cli import session
    from plait.cli.approval import TerminalApproval
    from plait.cli.arguments import parse_arguments, reader_for
    from plait.cli.questions import Questioner, person_at_terminal

    read_text = reader_for([*arguments, *answers])
    questioner = Questioner(
        server=server,
        tool=tool,
        given=answers,
        read_text=read_text,
        read_line=None if no_input else person_at_terminal(),
    )

    async def call_it(opened: Opened) -> ToolResult:
        async with opened.connecting:
            found = await find_tool(opened, server, tool)
        parsed = parse_arguments(arguments, found.input_schema, read_text)
        on_progress = None if as_json or settings_of(ctx).quiet else _print_progress
        return await opened.box.call(
            server,
            found.wire_name,
            parsed,
            timeout_seconds=timeout_seconds,
            on_progress=on_progress,
            on_elicitation=questioner,
        )

    try:
        result = session.run(
            ctx,
            call_it,
            servers=[server],
            heal=True,
            show_progress=not as_json,
            on_elicitation=questioner,
            on_approval=TerminalApproval(yes=yes, ask=not no_input),
        )
    except PlaitError as error:
        if not as_json:
            raise
        _print_failure(server, tool, error)
        ctx.exit(exit_code_for(error))
    if as_json:
        _print_object(result, folder)
    else:
        _print_result(result, folder, quiet=settings_of(ctx).quiet)
    if result.is_error:
        ctx.exit(Exit.TOOL_FAILED)


async def find_tool(opened: Opened, server: str, name: str) -> Tool:
    """Find a tool by either of its names.

    Raises:
        PermissionDeniedError: The policy denies every call of it.
        ToolNotFoundError: There is none.
    """
    from plait.cli.suggestions import did_you_mean

    tools = await opened.box.tools(server)
    for tool in tools:
        if name in {tool.wire_name, tool.name}:
            return tool
    decision = await opened.box.decide(server, name)
    if decision.verdict == "deny":
        text = f"{server}/{name}: this call is denied by {decision.reason}"
        raise PermissionDeniedError(text, server=server, tool=name)
    guess = did_you_mean(name, [tool.wire_name for tool in tools])
    raise ToolNotFoundError(f"{server} has no tool {name!r}: {guess}", server=server, tool=name)


async def _print_progress(done: float, total: float | None, message: str | None) -> None:
    from plait.cli.terminal import print_aside

    amount = f"{done:g} of {total:g}" if total else f"{done:g}"
    print_aside("progress", f"{amount} {message or ''}".rstrip(), colour="blue")


def _parts_of(result: ToolResult, folder: Path | None) -> list[Part]:
    from plait.cli.content import part_from_block, saved_parts

    parts = [part_from_block(block) for block in result.content]
    return saved_parts(parts, folder, f"{result.server}-{result.tool}") if folder else parts


def _print_result(result: ToolResult, folder: Path | None, *, quiet: bool) -> None:
    import json

    from plait.cli.content import has_text
    from plait.cli.terminal import print_aside, print_text

    parts = _parts_of(result, folder)
    if result.is_error:
        print_aside("error", f"{result.tool} of {result.server} reports a failure", colour="red")
    for part in parts:
        print_text(str(part), err=result.is_error)
    if result.structured_content is not None and not has_text(parts):
        structured = json.dumps(result.structured_content, indent=2, ensure_ascii=False)
        print_text(structured, err=result.is_error)
    for note in () if quiet else result.notes:
        print_aside("note", note, colour="yellow")


def _print_object(result: ToolResult, folder: Path | None) -> None:
    from plait.cli.terminal import print_json

    described = result.to_dict()
    if folder is not None:
        saved = [part.saved for part in _parts_of(result, folder) if part.saved]
        described = {**described, "saved": [str(path) for path in saved]}
    print_json(described)


def _print_failure(server: str, tool: str, error: PlaitError) -> None:
    from plait.cli.terminal import print_json

    print_json(
        {
            "server": server,
            "tool": tool,
            "is_error": True,
            "content": [],
            "structured_content": None,
            "error": error.to_dict(),
        }
    )
