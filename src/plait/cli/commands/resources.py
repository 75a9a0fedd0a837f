"""`plait resources` and `plait read`: list the resources of the servers, and read one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import click
from rich.text import Text

from plait._support import mcp_types as types
from plait.cli import session, terminal
from plait.cli.base import ExampleCommand, json_option, server_argument, server_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from plait.cli.content import Part
    from plait.client.runtime import Listed
    from plait.client.toolbox import Toolbox

    Entry: TypeAlias = Listed[types.Resource] | Listed[types.ResourceTemplate]


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
        terminal.print_json([_object(entry) for listed in entries.values() for entry in listed])
    elif not entries:
        click.echo("no resources", err=True)
    else:
        terminal.print_sections(
            (server, _counts(listed), map(_entry_text, listed))
            for server, listed in entries.items()
        )
    session.exit_if_missing(ctx, queried)


def _object(entry: Entry) -> dict[str, object]:
    kind = "template" if _is_template(entry) else "resource"
    return {"server": entry.server, "kind": kind, **session.wire_object(entry.item)}


def _is_template(entry: Entry) -> bool:

    return isinstance(entry.item, types.ResourceTemplate)


def _counts(listed: Sequence[Entry]) -> str:
    templates = sum(map(_is_template, listed))
    counts = ((len(listed) - templates, "resource"), (templates, "template"))
    return ", ".join(terminal.count_label(count, noun) for count, noun in counts if count)


def _entry_text(entry: Entry) -> Text:

    item = entry.item
    uri = item.uri if isinstance(item, types.Resource) else item.uri_template
    size = item.size if isinstance(item, types.Resource) else None
    facts = [item.title or item.name, item.mime_type, terminal.size_label(size) if size else None]
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
        _save(parts, file)
    if as_json:
        contents = session.wire_object(result)["contents"]
        terminal.print_json({"server": server, "uri": uri, "contents": contents})
        return
    for part in parts if file is None else ():
        if part.data is not None and not terminal.is_terminal(sys.stdout):
            sys.stdout.buffer.write(part.data)
        else:
            terminal.print_text(str(part).replace("--save DIR", "--save FILE"))


def _save(parts: Sequence[Part], file: Path) -> None:
    data = b"".join(
        (part.text or "").encode() if part.data is None else part.data for part in parts
    )
    file.write_bytes(data)
    terminal.print_aside("saved", f"{file} ({terminal.size_label(len(data))})", colour="green")
