"""`plait prompts`: list the prompts of the servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.text import Text

from plait.cli import session
from plait.cli.click_classes import ExampleCommand
from plait.cli.options import json_option, server_arguments
from plait.cli.terminal import count_label, print_heading, print_json, print_rich, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp import types

    from plait.client.runtime import Listed


@click.command(
    cls=ExampleCommand,
    examples="""
    plait prompts                  the prompts of every server
    plait prompts review --json
    plait prompt review summarize text=@notes.txt
    """,
)
@server_arguments
@json_option
@click.pass_context
def prompts(ctx: click.Context, servers: tuple[str, ...], as_json: bool) -> None:
    """List the prompts of the servers.

    An argument with "?" is optional.
    Exits with code 3 if a server cannot be reached.
    """
    queried = session.query_servers(
        ctx,
        session.load_config(ctx, servers),
        lambda box, server: box.list_prompts(server),
        show_progress=not as_json,
    )
    entries = {server: listed for server, listed in queried.results.items() if listed}
    if as_json:
        print_json([prompt_object(entry) for listed in entries.values() for entry in listed])
    else:
        _print_prompts(entries)
    session.exit_if_missing(ctx, queried)


def prompt_object(entry: Listed[types.Prompt]) -> dict[str, object]:
    """Return a prompt as JSON, with the field names of the protocol."""
    wire = entry.item.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"server": entry.server, **wire}


def _print_prompts(entries: Mapping[str, Sequence[Listed[types.Prompt]]]) -> None:
    if not entries:
        click.echo("no prompts", err=True)
    for number, (server, listed) in enumerate(entries.items()):
        if number:
            click.echo()
        print_heading(server, count_label(len(listed), "prompt"))
        for entry in listed:
            print_rich(_prompt_text(entry.item))


def _prompt_text(prompt: types.Prompt) -> Text:
    names = [
        argument.name if argument.required else f"{argument.name}?"
        for argument in prompt.arguments or ()
    ]
    text = Text("  ")
    text.append(visible(prompt.name), "bold cyan")
    text.append(visible(f"({', '.join(names)})"))
    summary = (prompt.description or prompt.title or "").strip().splitlines()[:1]
    if summary:
        text.append(f"\n      {visible(summary[0])}", "dim")
    return text
