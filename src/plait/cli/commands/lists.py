"""`plait servers`, `tools`, `resources`, `read`, `prompts` and `prompt`: what there is to use."""

from __future__ import annotations

import json
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from plait._support import mcp_types as types
from plait._support.sizes import size_label
from plait.cli import session, terminal
from plait.cli.advice import target_of
from plait.cli.arguments import parameters_of, parse_arguments, reader_for
from plait.cli.base import ExampleCommand, json_option, server_argument, server_arguments
from plait.cli.exits import Exit
from plait.cli.terminal import print_json, print_sections, print_text, visible
from plait.client.catalog.tool import Tool
from plait.errors import PlaitError
from plait.html.pieces import count_label, seconds_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plait.client.calls.runtime import Listed
    from plait.client.toolbox import Toolbox

    Entry: TypeAlias = Listed[types.Resource] | Listed[types.ResourceTemplate]
    from plait.client.connections.status import Status

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
        width = terminal.console_for(sys.stdout).width

        def lines(tools: Sequence[Tool]) -> Iterator[RenderableType]:
            for tool in tools:
                yield signature_text(tool, width)
                for line in _details(tool) if full else summary_of(tool):
                    yield Padding(Text(line, "dim"), (0, 0, 0, _PARAMETER_INDENT))

        terminal.print_sections(
            (server, count_label(len(tools), "tool"), lines(tools))
            for server, tools in listed.items()
        )
    session.exit_if_missing(ctx, queried)


def tool_object(tool: Tool) -> dict[str, object]:
    """Return a tool as JSON; `name` is the name that `plait call` takes."""
    described: dict[str, object] = {**tool.to_dict(), "name": tool.wire_name}
    del described["wire_name"]
    return described


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


@click.command(cls=ExampleCommand)
@server_arguments
@json_option
@click.pass_context
def resources(ctx: click.Context, servers: tuple[str, ...], as_json: bool) -> None:
    """List the resources and templates of the servers.

    A URI with {braces} is a template: fill it in, then read it.
    Exits with code 3 if a server cannot be reached.

    Examples:
        plait resources                every resource of every server
        plait resources files --json
        plait read files file:///etc/hosts
    """

    async def list_entries(box: Toolbox, server: str) -> list[Entry]:
        return [*await box.list_resources(server), *await box.list_resource_templates(server)]

    config = session.load_config(ctx, servers)
    queried = session.query_servers(ctx, config, list_entries)
    entries = {server: listed for server, listed in queried.results.items() if listed}
    if as_json:
        every = [entry for listed in entries.values() for entry in listed]
        terminal.print_json(
            [
                {
                    "server": entry.server,
                    "kind": "template" if _is_template(entry) else "resource",
                    **session.wire_object(entry.item),
                }
                for entry in every
            ]
        )
    elif not entries:
        click.echo("no resources", err=True)
    else:
        sections: list[tuple[str, str, Iterable[Text]]] = []
        for server, listed in entries.items():
            templates = sum(map(_is_template, listed))
            counts = ((len(listed) - templates, "resource"), (templates, "template"))
            facts = ", ".join(count_label(count, noun) for count, noun in counts if count)
            sections.append((server, facts, map(_entry_text, listed)))
        terminal.print_sections(sections)
    session.exit_if_missing(ctx, queried)


def _is_template(entry: Entry) -> bool:
    return isinstance(entry.item, types.ResourceTemplate)


def _entry_text(entry: Entry) -> Text:
    item = entry.item
    uri = item.uri if isinstance(item, types.Resource) else item.uri_template
    size = item.size if isinstance(item, types.Resource) else None
    facts = [item.title or item.name, item.mime_type, size_label(size) if size else None]
    about = terminal.visible(", ".join(fact for fact in facts if fact))
    name = (terminal.visible(str(uri)), "bold cyan")
    text = Text.assemble("  ", name, (f"  {about}", "dim"), overflow="fold")
    if summary := (item.description or "").strip().splitlines()[:1]:
        text.append(f"\n      {terminal.visible(summary[0])}", "dim")
    return text


@click.command(cls=ExampleCommand)
@server_argument
@click.argument("uri")
@click.option(
    "--save",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the contents to this file.",
)
@json_option
@click.pass_context
def read(ctx: click.Context, server: str, uri: str, file: Path | None, as_json: bool) -> None:
    """Read one resource and print it.

    Text is printed unchanged. Binary data is written to a file or a pipe,
    never to a terminal.

    Examples:
        plait read files file:///etc/hosts
        plait read shop catalogue://logo --save logo.png
        plait read shop catalogue://logo > logo.png
    """
    from plait.cli.content import part_from_contents

    result = session.query_server(
        ctx, server, lambda box: box.read_resource(server, uri), {"uri": uri, "contents": []}
    )
    parts = [part_from_contents(contents) for contents in result.contents]
    if file is not None:
        data = b"".join(
            (part.text or "").encode() if part.data is None else part.data for part in parts
        )
        file.write_bytes(data)
        size = size_label(len(data))
        terminal.print_aside("saved", f"{file} ({size})", colour="green")
    if as_json:
        contents = session.wire_object(result)["contents"]
        terminal.print_json({"server": server, "uri": uri, "contents": contents})
        return
    for part in parts if file is None else ():
        if part.data is not None and not sys.stdout.isatty():
            sys.stdout.buffer.write(part.data)
        else:
            terminal.print_text(str(part).replace("--save DIR", "--save FILE"))


@click.command(cls=ExampleCommand)
@server_arguments
@json_option
@click.pass_context
def prompts(ctx: click.Context, servers: tuple[str, ...], as_json: bool) -> None:
    """List the prompts of the servers.

    An argument with "?" is optional.
    Exits with code 3 if a server cannot be reached.

    Examples:
        plait prompts                  the prompts of every server
        plait prompts review --json
        plait prompt review summarize text=@notes.txt
    """
    config = session.load_config(ctx, servers)
    queried = session.query_servers(ctx, config, lambda box, server: box.list_prompts(server))
    entries = {server: listed for server, listed in queried.results.items() if listed}
    if as_json:
        every = [entry for listed in entries.values() for entry in listed]
        print_json([{"server": one.server, **session.wire_object(one.item)} for one in every])
    elif not entries:
        click.echo("no prompts", err=True)
    else:
        print_sections(
            (server, count_label(len(listed), "prompt"), [_prompt_text(one.item) for one in listed])
            for server, listed in entries.items()
        )
    session.exit_if_missing(ctx, queried)


def _prompt_text(prompt: types.Prompt) -> Text:
    names = [one.name if one.required else f"{one.name}?" for one in prompt.arguments or ()]
    signature = visible(f"({', '.join(names)})")
    text = Text.assemble("  ", (visible(prompt.name), "bold cyan"), signature)
    if summary := (prompt.description or prompt.title or "").strip().splitlines()[:1]:
        text.append(f"\n      {visible(summary[0])}", "dim")
    return text


_ALL_TEXT = {"type": "object", "additionalProperties": {"type": "string"}}
"""The arguments of a prompt are always text."""


@click.command(cls=ExampleCommand)
@server_argument
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[JSON | KEY=VALUE]…")
@json_option
@click.pass_context
def prompt(
    ctx: click.Context, server: str, name: str, arguments: tuple[str, ...], as_json: bool
) -> None:
    """Fill in one prompt and print its messages.

    Arguments are text: KEY=VALUE, KEY=@FILE, or one JSON object.

    Examples:
        plait prompt review summarize text=@notes.txt tone=dry
        plait prompt review summarize text=hello --json
    """
    parsed = parse_arguments(arguments, _ALL_TEXT, reader_for(arguments))
    result = session.query_server(
        ctx,
        server,
        lambda box: box.get_prompt(server, name, parsed),
        {"prompt": name, "messages": []},
    )
    if as_json:
        wire = session.wire_object(result)
        described = {"description": wire.get("description"), "messages": wire["messages"]}
        print_json({"server": server, "prompt": name, **described})
        return
    from plait.cli.content import part_from_block

    for number, message in enumerate(result.messages):
        if number:
            click.echo()
        click.echo(click.style(f"{message.role}:", bold=True))
        print_text(str(part_from_block(message.content)))


@click.command(cls=ExampleCommand)
@server_arguments
@click.option("--no-connect", is_flag=True, help="Show the configuration; start nothing.")
@json_option
@click.pass_context
def servers(ctx: click.Context, servers: tuple[str, ...], no_connect: bool, as_json: bool) -> None:
    """Connect to every server and show its status.

    Exits with code 3 if a server cannot be reached.

    Examples:
        plait servers                  every server of mcp.json
        plait servers time files       only these
        plait servers --no-connect     the configuration, without connecting
        plait servers --json | jq -r '.[] | select(.state != "ready") | .name'
    """
    config = session.load_config(ctx, servers)
    if no_connect:
        # Without secrets; the disabled ones are last.
        if as_json:
            listed: list[dict[str, object]] = [
                {
                    "name": name,
                    "transport": server.transport,
                    "target": target_of(server),
                    "disabled": False,
                    "source": server.source or config.source,
                }
                for name, server in config.servers.items()
            ]
            disabled = ({"name": name, "disabled": True} for name in config.disabled)
            terminal.print_json([*listed, *disabled])
            return
        table = terminal.plain_table("server", "transport", "target", dispensable=["transport"])
        for name, server in config.servers.items():
            table.add_row(Text(name, "bold"), server.transport, Text(target_of(server)))
        for name in config.disabled:
            table.add_row(Text(name, "dim"), "–", Text("disabled", "dim"))
        terminal.print_rich(table)
        return

    async def connect(box: Toolbox) -> tuple[Mapping[str, PlaitError], Status]:
        queried = await session.query_each(config.servers, box.tools)
        return queried.errors, box.status()

    errors, status = session.run_in_toolbox(ctx, config, connect)
    if as_json:
        terminal.print_json([server.to_dict() for server in status.servers.values()])
    else:
        terminal.print_rich(status_table(status, errors))
        for number, (name, error) in enumerate(errors.items()):
            line = terminal.wrapped(session.error_line(name, error), sys.stdout)
            terminal.print_text(line if number else f"\n{line}")
        if errors:
            terminal.print_aside("hint", f"plait doctor {' '.join(errors)}", colour="cyan")
    if errors:
        ctx.exit(Exit.UNREACHABLE)


def status_table(status: Status, failed: Container[str] = ()) -> Table:
    """Make a table of the status of every server."""
    table = terminal.plain_table(
        *("", "server", "transport", "state", "protocol", "implementation"),
        dispensable=("implementation", "protocol", "connect", "transport", "tools"),
    )
    table.add_column("tools", justify="right")
    table.add_column("connect", justify="right")
    for server in status.servers.values():
        ready = server.state == "ready" and server.name not in failed
        info = server.server_info or {}
        about = " ".join(str(info[key]) for key in ("name", "version") if info.get(key))
        table.add_row(
            terminal.tick(ready),
            Text(server.name, "bold"),
            server.transport,
            Text(server.state, "green" if ready else "red"),
            server.protocol_version or "–",
            terminal.cell(about),
            "–" if server.tool_count is None else str(server.tool_count),
            seconds_label(server.connect_seconds if ready else None),
        )
    return table
