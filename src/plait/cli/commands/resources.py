"""`plait resources`: list the resources and templates of the servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import click

from plait.cli.click_classes import ExampleCommand
from plait.cli.exits import Exit
from plait.cli.options import common_options, json_option, server_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp import types
    from rich.text import Text

    from plait.cli.ask_servers import Answers
    from plait.cli.session import Opened
    from plait.client.features import Listed

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
@common_options
@click.pass_context
def resources(ctx: click.Context, servers: tuple[str, ...], as_json: bool) -> None:
    """List the resources and templates of the servers.

    A URI with {braces} is a template: fill it in, then read it.
    Ends with code 3 when a server is missing from the list.
    """
    from plait.cli import session
    from plait.cli.ask_servers import ask_each, warn_about
    from plait.cli.terminal import print_json

    async def list_all(opened: Opened) -> Answers[list[Entry]]:
        async def list_one(server: str) -> list[Entry]:
            found = await opened.box.resources(server)
            return [*found, *await opened.box.resource_templates(server)]

        async with opened.connecting:
            return await ask_each(opened.config.servers, list_one)

    answers = session.run(ctx, list_all, servers=servers, show_progress=not as_json)
    found = {server: listed for server, listed in answers.found.items() if listed}
    if as_json:
        print_json([entry_object(entry) for listed in found.values() for entry in listed])
    else:
        _print_entries(found)
    warn_about(answers.failed)
    if answers.failed:
        ctx.exit(Exit.UNREACHABLE)


def entry_object(entry: Entry) -> dict[str, object]:
    """Describe a resource or template as plain data, with the protocol's own names."""
    wire = entry.item.model_dump(mode="json", by_alias=True, exclude_none=True)
    kind = "template" if _is_template(entry) else "resource"
    return {"server": entry.server, "kind": kind, **wire}


def _is_template(entry: Entry) -> bool:
    from mcp import types

    return isinstance(entry.item, types.ResourceTemplate)


def _print_entries(found: Mapping[str, Sequence[Entry]]) -> None:
    from rich.text import Text

    from plait.cli.terminal import count_label, print_rich

    if not found:
        click.echo("no resources", err=True)
    for number, (server, listed) in enumerate(found.items()):
        templates = sum(map(_is_template, listed))
        counts = [
            count_label(count, noun)
            for count, noun in ((len(listed) - templates, "resource"), (templates, "template"))
            if count
        ]
        if number:
            click.echo()
        print_rich(Text.assemble((server, "bold"), (f"  {', '.join(counts)}", "dim")))
        for entry in listed:
            print_rich(_entry_text(entry))


def _entry_text(entry: Entry) -> Text:
    from mcp import types
    from rich.text import Text

    from plait.cli.terminal import size_label, visible

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
