"""`plait prompts`: list the prompts the servers offer."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
@common_options
@click.pass_context
def prompts(ctx: click.Context, servers: tuple[str, ...], as_json: bool) -> None:
    """List the prompts the servers offer.

    An argument with "?" may be left out.
    Ends with code 3 when a server is missing from the list.
    """
    from plait.cli import session
    from plait.cli.ask_servers import ask_each, warn_about
    from plait.cli.terminal import print_json

    async def list_all(opened: Opened) -> Answers[list[Listed[types.Prompt]]]:
        async with opened.connecting:
            return await ask_each(opened.config.servers, opened.box.prompts)

    answers = session.run(ctx, list_all, servers=servers, show_progress=not as_json)
    found = {server: listed for server, listed in answers.found.items() if listed}
    if as_json:
        print_json([prompt_object(entry) for listed in found.values() for entry in listed])
    else:
        _print_prompts(found)
    warn_about(answers.failed)
    if answers.failed:
        ctx.exit(Exit.UNREACHABLE)


def prompt_object(entry: Listed[types.Prompt]) -> dict[str, object]:
    """Describe a prompt as plain data, with the protocol's own names."""
    wire = entry.item.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"server": entry.server, **wire}


def _print_prompts(found: Mapping[str, Sequence[Listed[types.Prompt]]]) -> None:
    from rich.text import Text

    from plait.cli.terminal import count_label, print_rich

    if not found:
        click.echo("no prompts", err=True)
    for number, (server, listed) in enumerate(found.items()):
        if number:
            click.echo()
        print_rich(
            Text.assemble((server, "bold"), (f"  {count_label(len(listed), 'prompt')}", "dim"))
        )
        for entry in listed:
            print_rich(_prompt_text(entry.item))


def _prompt_text(prompt: types.Prompt) -> Text:
    from rich.text import Text

    from plait.cli.terminal import visible

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
