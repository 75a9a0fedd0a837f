"""`plait prompt`: fill in one prompt and print its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from plait.cli import session
from plait.cli.arguments import parse_arguments, reader_for
from plait.cli.click_classes import ExampleCommand
from plait.cli.options import json_option
from plait.cli.terminal import print_json, print_text

if TYPE_CHECKING:
    from mcp import types

    from plait.cli.session import Opened

_ALL_TEXT = {"type": "object", "additionalProperties": {"type": "string"}}
"""The arguments of a prompt are always text."""


@click.command(
    cls=ExampleCommand,
    examples="""
    plait prompt review summarize text=@notes.txt tone=dry
    plait prompt review summarize text=hello --json
    """,
)
@click.argument("server")
@click.argument("name")
@click.argument("arguments", nargs=-1, metavar="[JSON | KEY=VALUE]…")
@json_option
@click.pass_context
def prompt(
    ctx: click.Context, server: str, name: str, arguments: tuple[str, ...], as_json: bool
) -> None:
    """Fill in one prompt and print its messages.

    Arguments are text: KEY=VALUE, KEY=@FILE, or one JSON object.
    """
    parsed = parse_arguments(arguments, _ALL_TEXT, reader_for(arguments))

    async def get_prompt(opened: Opened) -> types.GetPromptResult:
        async with opened.connecting:
            return await opened.box.get_prompt(server, name, parsed)

    with session.json_errors(ctx, as_json, server=server, prompt=name, messages=[]):
        result = session.run(
            ctx, get_prompt, servers=[server], heal=True, show_progress=not as_json
        )
    if as_json:
        wire = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        described = {"description": wire.get("description"), "messages": wire["messages"]}
        print_json({"server": server, "prompt": name, **described})
    else:
        _print_messages(result)


def _print_messages(result: types.GetPromptResult) -> None:
    from plait.cli.content import part_from_block

    for number, message in enumerate(result.messages):
        if number:
            click.echo()
        click.echo(click.style(f"{message.role}:", bold=True))
        print_text(str(part_from_block(message.content)))
