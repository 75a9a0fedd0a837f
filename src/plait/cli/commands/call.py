"""`plait call`: call a tool and print its result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from plait._support.suggestions import suggest_names
from plait.cli import session
from plait.cli.arguments import ReadText, parse_arguments, reader_for
from plait.cli.click_classes import ExampleCommand
from plait.cli.exits import Exit
from plait.cli.options import json_option, settings_of, timeout_option
from plait.cli.terminal import print_aside, print_json, print_text
from plait.errors import PermissionDeniedError, ToolNotFoundError

if TYPE_CHECKING:
    from mcp.client.session import ElicitationFnT

    from plait.cli.content import Part
    from plait.cli.session import Opened
    from plait.client.calls.outcome import ToolResult
    from plait.client.calls.tool_call import OnProgress
    from plait.client.catalog.tool import Tool


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
@timeout_option("Timeout of the call.")
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
    help="Answer an elicitation request of the server in advance; may be repeated.",
)
@click.option(
    "--no-input",
    is_flag=True,
    help="Never prompt: decline what --answer or --yes does not settle.",
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
    """
    from plait.cli.approval import TerminalApproval
    from plait.cli.questions import Questioner, person_at_terminal

    quiet = settings_of(ctx).quiet
    read_text = reader_for([*arguments, *answers])
    request = _CallRequest(
        server=server,
        tool=tool,
        words=arguments,
        read_text=read_text,
        timeout_seconds=timeout_seconds,
        on_progress=None if as_json or quiet else _print_progress,
        on_elicitation=Questioner(
            server=server,
            tool=tool,
            answers=answers,
            read_text=read_text,
            read_line=None if no_input else person_at_terminal(),
        ),
    )
    with session.json_errors(ctx, as_json, server=server, tool=tool, **_NO_RESULT):
        result = session.run(
            ctx,
            request.send,
            servers=[server],
            heal=True,
            show_progress=not as_json,
            on_elicitation=request.on_elicitation,
            on_approval=TerminalApproval(yes=yes, ask=not no_input),
        )
    if as_json:
        _print_object(result, folder)
    else:
        _print_result(result, folder, quiet=quiet)
    ctx.exit(Exit.TOOL_FAILED if result.is_error else Exit.OK)


_NO_RESULT: dict[str, object] = {"is_error": True, "content": [], "structured_content": None}


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallRequest:
    """A tool call as it is written on the command line."""

    server: str
    tool: str
    words: Sequence[str]
    """The arguments; the schema of the tool decides what they mean."""
    read_text: ReadText
    timeout_seconds: float | None
    on_progress: OnProgress | None
    on_elicitation: ElicitationFnT

    async def send(self, opened: Opened) -> ToolResult:
        async with opened.connecting:
            tool = await find_tool(opened, self.server, self.tool)
        return await opened.box.call(
            self.server,
            tool.wire_name,
            parse_arguments(self.words, tool.input_schema, self.read_text),
            timeout_seconds=self.timeout_seconds,
            on_progress=self.on_progress,
            on_elicitation=self.on_elicitation,
        )


async def find_tool(opened: Opened, server: str, name: str) -> Tool:
    """Find a tool by its wire name or its public name.

    Raises:
        PermissionDeniedError: The policy denies every call of it.
        ToolNotFoundError: The server has no such tool.
    """
    tools = await opened.box.tools(server)
    for tool in tools:
        if name in {tool.wire_name, tool.name}:
            return tool
    decision = await opened.box.decide(server, name)
    if decision.verdict == "deny":
        text = f"{server}/{name}: this call is denied by {decision.reason}"
        raise PermissionDeniedError(text, server=server, tool=name)
    guess = suggest_names(name, [tool.wire_name for tool in tools])
    raise ToolNotFoundError(f"{server} has no tool {name!r}: {guess}", server=server, tool=name)


async def _print_progress(done: float, total: float | None, message: str | None) -> None:
    amount = f"{done:g} of {total:g}" if total else f"{done:g}"
    print_aside("progress", f"{amount} {message or ''}".rstrip(), colour="blue")


def _parts_of(result: ToolResult, folder: Path | None) -> list[Part]:
    from plait.cli.content import part_from_block, saved_parts

    parts = [part_from_block(block) for block in result.content]
    return saved_parts(parts, folder, f"{result.server}-{result.tool}") if folder else parts


def _print_result(result: ToolResult, folder: Path | None, *, quiet: bool) -> None:
    from plait.cli.content import has_text

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
    described = result.to_dict()
    if folder is not None:
        saved = [part.saved for part in _parts_of(result, folder) if part.saved]
        described = {**described, "saved": [str(path) for path in saved]}
    print_json(described)
