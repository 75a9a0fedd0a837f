"""`plait prompts` and `plait prompt`: list the prompts of the servers, and fill in one."""

from __future__ import annotations

import click
from rich.text import Text

from plait._support import mcp_types as types
from plait.cli import session
from plait.cli.arguments import parse_arguments, reader_for
from plait.cli.base import ExampleCommand, json_option, server_argument, server_arguments
from plait.cli.terminal import count_label, print_json, print_sections, print_text, visible


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
