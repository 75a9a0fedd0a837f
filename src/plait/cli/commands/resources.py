"""`plait resources`: list the resources and templates of the servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import click
from rich.text import Text

from plait.cli import session
from plait.cli.click_classes import ExampleCommand
from plait.cli.options import json_option, server_arguments
from plait.cli.terminal import (
    count_label,
    print_heading,
    print_json,
    print_rich,
    size_label,
    visible,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp import types

    from plait.client.runtime import Listed
    from plait.client.toolbox import Toolbox

    Entry: TypeAlias = Listed[types.Resource] | Listed[types.ResourceTemplate]


@click.command(
    cls=ExampleCommand,
    examples="""
    plait resources                every resource of every server
    plait resources files --json
    plait read files file:///etc/hosts
    """,
)
@server_arguments
@json_option
@click.pass_context
def resources(ctx: click.Context, servers: tuple[str, ...], as_json: bool) -> None:
    """List the resources and templates of the servers.

    A URI with {braces} is a template: fill it in, then read it.
    Exits with code 3 if a server cannot be reached.
    """

    async def list_entries(box: Toolbox, server: str) -> list[Entry]:
        return [*await box.list_resources(server), *await box.list_resource_templates(server)]

    config = session.load_config(ctx, servers)
    queried = session.query_servers(ctx, config, list_entries, show_progress=not as_json)
    entries = {server: listed for server, listed in queried.results.items() if listed}
    if as_json:
        print_json([entry_object(entry) for listed in entries.values() for entry in listed])
    else:
        _print_entries(entries)
    session.exit_if_missing(ctx, queried)


def entry_object(entry: Entry) -> dict[str, object]:
    """Return a resource or template as JSON, with the field names of the protocol."""
    wire = entry.item.model_dump(mode="json", by_alias=True, exclude_none=True)
    kind = "template" if _is_template(entry) else "resource"
    return {"server": entry.server, "kind": kind, **wire}


def _is_template(entry: Entry) -> bool:
    from mcp import types

    return isinstance(entry.item, types.ResourceTemplate)


def _print_entries(entries: Mapping[str, Sequence[Entry]]) -> None:
    if not entries:
        click.echo("no resources", err=True)
    for number, (server, listed) in enumerate(entries.items()):
        templates = sum(map(_is_template, listed))
        counts = [
            count_label(count, noun)
            for count, noun in ((len(listed) - templates, "resource"), (templates, "template"))
            if count
        ]
        if number:
            click.echo()
        print_heading(server, ", ".join(counts))
        for entry in listed:
            print_rich(_entry_text(entry))


def _entry_text(entry: Entry) -> Text:
    from mcp import types

    item = entry.item
    uri = item.uri if isinstance(item, types.Resource) else item.uri_template
    size = item.size if isinstance(item, types.Resource) else None
    facts = [item.title or item.name, item.mime_type, size_label(size) if size else None]
    text = Text("  ", overflow="fold")
    text.append(visible(str(uri)), "bold cyan")
    text.append(f"  {visible(', '.join(fact for fact in facts if fact))}", "dim")
    if summary := (item.description or "").strip().splitlines()[:1]:
        text.append(f"\n      {visible(summary[0])}", "dim")
    return text
