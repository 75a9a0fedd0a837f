"""`plait tools`: list the tools the servers offer."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from plait.cli.click_classes import ExampleCommand
from plait.cli.exits import Exit
from plait.cli.options import common_options, json_option, server_arguments

if TYPE_CHECKING:
    from rich.text import Text

    from plait.cli.ask_servers import Answers
    from plait.cli.session import Opened
    from plait.client.catalog.tool import Tool

_PARAMETER_INDENT = 6

_MARK_STYLES = {"read-only": "green", "idempotent": "green", "destructive": "yellow"}


@click.command(
    cls=ExampleCommand,
    examples=r"""
    plait tools                    the tools of every server
    plait tools time --full        with schemas
    plait tools --json | jq -r '.[] | "\(.server) \(.name)"'
    """,
)
@server_arguments
@click.option("--full", is_flag=True, help="Show whole descriptions, parameters and schemas.")
@json_option
@common_options
@click.pass_context
def tools(ctx: click.Context, servers: tuple[str, ...], full: bool, as_json: bool) -> None:
    """List the tools the servers offer.

    A parameter with "?" may be left out; one with "=" has that default.
    Ends with code 3 when a server is missing from the list.
    """
    from plait.cli import session
    from plait.cli.ask_servers import ask_each, warn_about
    from plait.cli.terminal import print_json

    async def list_tools(opened: Opened) -> Answers[list[Tool]]:
        async with opened.connecting:
            return await ask_each(opened.config.servers, opened.box.tools)

    answers = session.run(ctx, list_tools, servers=servers, show_progress=not as_json)
    if as_json:
        print_json([tool_object(tool) for found in answers.found.values() for tool in found])
    else:
        _print_tools(answers.found, full)
    warn_about(answers.failed)
    if answers.failed:
        ctx.exit(Exit.UNREACHABLE)


def tool_object(tool: Tool) -> dict[str, object]:
    """Describe a tool as plain data; `name` is what `plait call` takes."""
    described: dict[str, object] = {**tool.to_dict(), "name": tool.wire_name}
    del described["wire_name"]
    return described


def _print_tools(found: Mapping[str, Sequence[Tool]], full: bool) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from plait.cli.terminal import console_for, count_label, print_rich

    width = console_for(sys.stdout).width
    for number, (server, listed) in enumerate(found.items()):
        if number:
            click.echo()
        heading = Text.assemble((server, "bold"), (f"  {count_label(len(listed), 'tool')}", "dim"))
        print_rich(heading)
        for tool in listed:
            print_rich(signature_text(tool, width))
            for line in _details(tool) if full else _summary(tool):
                print_rich(Padding(Text(line, "dim"), (0, 0, 0, 6)))


def signature_text(tool: Tool, width: int) -> Text:
    """Write a tool as a call: its name, and its parameters with their types.

    Lines are broken between parameters, never inside one.
    """
    from rich.text import Text

    from plait.cli.schemas import parameters_of
    from plait.cli.terminal import visible

    name = visible(tool.wire_name)
    shown = [visible(str(parameter)) for parameter in parameters_of(tool.input_schema)]
    pieces = [(f"{parameter}, ", "") for parameter in shown[:-1]]
    pieces.append((f"{shown[-1] if shown else ''})", ""))
    pieces.extend((f" [{mark}]", _MARK_STYLES[mark]) for mark in marks_of(tool))
    text = Text.assemble("  ", (name, "bold cyan"), "(", overflow="fold")
    column = len(name) + 3
    for piece, style in pieces:
        if column + len(piece.rstrip()) > width and column > _PARAMETER_INDENT:
            text.rstrip()
            text.append("\n" + " " * _PARAMETER_INDENT)
            column = _PARAMETER_INDENT
        text.append(piece.lstrip() if column == _PARAMETER_INDENT else piece, style)
        column += len(piece)
    return text


def marks_of(tool: Tool) -> list[str]:
    """Name what the server promises of a tool, in a word each."""
    if tool.annotations.get("read_only_hint"):
        return ["read-only"]
    named = {"destructive_hint": "destructive", "idempotent_hint": "idempotent"}
    return [word for hint, word in named.items() if tool.annotations.get(hint)]


def _summary(tool: Tool) -> Iterable[str]:
    from plait.cli.terminal import visible

    lines = (line.strip() for line in tool.description.splitlines())
    first = next((line for line in lines if line), tool.title or "")
    return [visible(first)] if first else []


def _details(tool: Tool) -> Iterable[str]:
    import json
    from inspect import cleandoc

    from plait.cli.schemas import parameters_of
    from plait.cli.terminal import visible

    yield from visible(cleandoc(tool.description)).splitlines()
    for parameter in parameters_of(tool.input_schema):
        if parameter.description:
            yield visible(f"{parameter.name}: {parameter.description}")
    for label, schema in (("input", tool.input_schema), ("output", tool.output_schema)):
        if schema:
            yield f"{label} schema:"
            yield visible(json.dumps(schema, indent=2, ensure_ascii=False))
