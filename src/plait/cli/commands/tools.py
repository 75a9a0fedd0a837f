"""`plait tools`: list the tools of the servers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import cleandoc

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from plait.cli import session, terminal
from plait.cli.arguments import parameters_of
from plait.cli.base import ExampleCommand, json_option, server_arguments
from plait.client.catalog.tool import Tool

_PARAMETER_INDENT = 6
_MARK_STYLES = {"read-only": "green", "idempotent": "green", "destructive": "yellow"}


@click.command(cls=ExampleCommand)
@server_arguments
@click.option("--full", is_flag=True, help="Show full descriptions, parameters and schemas.")
@json_option
@click.pass_context
def tools(ctx: click.Context, servers: tuple[str, ...], full: bool, as_json: bool) -> None:
    r"""List the tools of the servers.

    A parameter with "?" is optional; one with "=" has that default.
    Exits with code 3 if a server cannot be reached.

    Examples:
        plait tools                    the tools of every server
        plait tools time --full        with schemas
        plait tools --json | jq -r '.[] | "\(.server) \(.name)"'
    """
    config = session.load_config(ctx, servers)
    queried = session.query_servers(ctx, config, lambda box, server: box.tools(server))
    listed = queried.results
    if as_json:
        terminal.print_json([tool_object(tool) for tools in listed.values() for tool in tools])
    else:
        _print_tools(listed, full)
    session.exit_if_missing(ctx, queried)


def tool_object(tool: Tool) -> dict[str, object]:
    """Return a tool as JSON; `name` is the name that `plait call` takes."""
    described: dict[str, object] = {**tool.to_dict(), "name": tool.wire_name}
    del described["wire_name"]
    return described


def _print_tools(tools_by_server: Mapping[str, Sequence[Tool]], full: bool) -> None:
    width = terminal.console_for(sys.stdout).width

    def lines(tools: Sequence[Tool]) -> Iterator[RenderableType]:
        for tool in tools:
            yield signature_text(tool, width)
            for line in _details(tool) if full else summary_of(tool):
                yield Padding(Text(line, "dim"), (0, 0, 0, 6))

    terminal.print_sections(
        (server, terminal.count_label(len(tools), "tool"), lines(tools))
        for server, tools in tools_by_server.items()
    )


def signature_text(tool: Tool, width: int) -> Text:
    """Format a tool as a call: its name, and its parameters with their types.

    Lines are broken between parameters, never inside one.
    """
    name = terminal.visible(tool.wire_name)
    shown = [terminal.visible(str(parameter)) for parameter in parameters_of(tool.input_schema)]
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
    """Return the hints of a tool, as one word each."""
    if tool.annotations.get("read_only_hint"):
        return ["read-only"]
    named = {"destructive_hint": "destructive", "idempotent_hint": "idempotent"}
    return [word for hint, word in named.items() if tool.annotations.get(hint)]


def summary_of(tool: Tool) -> Iterable[str]:
    """Return the first line of a description, if there is one."""
    lines = (line.strip() for line in tool.description.splitlines())
    first = next((line for line in lines if line), tool.title or "")
    return [terminal.visible(first)] if first else []


def _details(tool: Tool) -> Iterable[str]:
    yield from terminal.visible(cleandoc(tool.description)).splitlines()
    for parameter in parameters_of(tool.input_schema):
        if parameter.description:
            yield terminal.visible(f"{parameter.name}: {parameter.description}")
    for label, schema in (("input", tool.input_schema), ("output", tool.output_schema)):
        if schema:
            yield f"{label} schema:"
            yield terminal.visible(json.dumps(schema, indent=2, ensure_ascii=False))
