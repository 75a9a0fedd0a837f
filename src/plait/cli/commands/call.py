"""`plait call`: call a tool and print its result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait._support.suggestions import suggest_names
from plait.cli import session
from plait.cli.arguments import check_names, parse_arguments, reader_for
from plait.cli.base import (
    ExampleCommand,
    json_option,
    repeatable,
    server_argument,
    settings_of,
    timeout_option,
)
from plait.cli.completion import complete_tools
from plait.cli.exits import Exit
from plait.cli.terminal import Spinner, print_aside, print_json, print_text, progress_label
from plait.client.catalog.tool import Tool
from plait.errors import PermissionDeniedError, ToolNotFoundError

if TYPE_CHECKING:
    from plait.client.calls.outcome import ToolResult
    from plait.client.toolbox import Toolbox


@click.command(cls=ExampleCommand)
@server_argument
@click.argument("tool", shell_complete=complete_tools)
@click.argument("arguments", nargs=-1, metavar="[JSON | KEY=VALUE]…")
@timeout_option("Timeout of the call.")
@click.option(
    "--save",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write images, audio and other data into this folder.",
)
@repeatable(
    "--answer", "answers", "KEY=VALUE", "Answer an elicitation request of the server in advance"
)
@click.option(
    "--no-input", is_flag=True, help="Never prompt: decline what --answer or --yes does not settle."
)
@click.option("--yes", is_flag=True, help="Approve calls for which the policy requires approval.")
@json_option
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
    """Call a tool and print its result.

    Arguments are one JSON object, or pairs. The input schema of the tool sets
    the type of a pair: text for a string, else JSON. KEY:=JSON is always JSON,
    KEY=@FILE the text of a file, A.B=VALUE sets B inside A, and a repeated KEY
    makes a list. A single "-" reads the JSON object from stdin.

    An elicitation request of the server prompts you on a terminal; elsewhere it
    is declined, unless --answer answers it. Calls that need approval by the
    policy are made if you confirm them on the terminal, or with --yes.

    With --json, stdout holds one JSON object, also if the call fails.

    Examples:
        plait call time get_current_time timezone=Europe/Berlin
        plait call files write_file path=notes.txt content=@draft.txt
        plait call shop search query=tea limit=5 filter.organic=true
        plait call shop order '{"items": [{"id": 7, "count": 2}]}'
        plait call shop order item=tea --answer size=large
        echo '{"timezone": "UTC"}' | plait call time get_current_time - --json
    """
    from plait.cli.questions import Questioner, TerminalApproval, person_at_terminal

    silent = as_json or settings_of(ctx).quiet
    read_text = reader_for([*arguments, *answers])
    read_line = None if no_input else person_at_terminal()
    questioner = Questioner(
        server=server, tool=tool, answers=answers, read_text=read_text, read_line=read_line
    )

    waiting = Spinner(f"{server}/{tool}", hidden=session.prints_only_results(ctx))
    answer = waiting.without(questioner)

    async def print_progress(done: float, total: float | None, message: str | None) -> None:
        print_aside("progress", progress_label(done, total, message), colour="blue")

    async def send(box: Toolbox) -> ToolResult:
        async with session.connecting(ctx, box):
            found = await find_tool(box, server, tool)
        values = parse_arguments(arguments, found.input_schema, read_text)
        if not as_json:
            check_names(found, values)
        async with waiting.shown():
            return await box.call(
                server,
                found.wire_name,
                values,
                timeout_seconds=timeout_seconds,
                on_progress=None if silent else waiting.without(print_progress),
                on_elicitation=answer,
                on_approval=waiting.without(TerminalApproval(yes=yes, ask=not no_input)),
            )

    result = session.query_server(
        ctx,
        server,
        send,
        {"tool": tool, "is_error": True, "content": [], "structured_content": None},
        show_progress=False,
        on_elicitation=lambda _: answer,
    )
    print_result(result, folder, as_json=as_json, quiet=silent)
    ctx.exit(Exit.TOOL_FAILED if result.is_error else Exit.OK)


async def find_tool(box: Toolbox, server: str, name: str) -> Tool:
    """Find a tool by its wire name or its public name."""
    tools = await box.tools(server)
    for tool in tools:
        if name in {tool.wire_name, tool.name}:
            return tool
    decision = await box.decide(server, name)
    if decision.verdict == "deny":
        text = f"{server}/{name}: this call is denied by {decision.reason}"
        raise PermissionDeniedError(text, server=server, tool=name)
    guess = suggest_names(name, [tool.wire_name for tool in tools])
    raise ToolNotFoundError(f"{server} has no tool {name!r}: {guess}", server=server, tool=name)


def print_result(result: ToolResult, folder: Path | None, *, as_json: bool, quiet: bool) -> None:
    """Print the content of a result, with its data saved to the folder."""
    from plait.cli.content import part_from_block, saved_parts

    parts = [part_from_block(block) for block in result.content]
    if folder:
        parts = saved_parts(parts, folder, f"{result.server}-{result.tool}")
    if as_json:
        saved = {"saved": [str(part.saved) for part in parts if part.saved]} if folder else {}
        print_json({**result.to_dict(), **saved})
        return
    if result.is_error:
        print_aside("error", f"{result.tool} of {result.server} reports a failure", colour="red")
    for part in parts:
        print_text(str(part), err=result.is_error)
    if result.structured_content is not None and not any(part.text for part in parts):
        structured = json.dumps(result.structured_content, indent=2, ensure_ascii=False)
        print_text(structured, err=result.is_error)
    for note in () if quiet else result.notes:
        print_aside("note", note, colour="yellow")
