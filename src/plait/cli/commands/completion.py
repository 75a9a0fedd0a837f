"""`plait completion`: print the script that lets a shell complete commands and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from plait.cli.base import ExampleCommand

_PROGRAM = "plait"
_SHELLS = ("bash", "zsh", "fish")


@click.command(cls=ExampleCommand)
@click.argument("shell", type=click.Choice(_SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, servers and tools.

    The tools of a server are listed when they are first completed, and
    remembered for ten minutes.

    Examples:
        plait completion bash >> ~/.bashrc
        plait completion zsh >> ~/.zshrc
        plait completion fish > ~/.config/fish/completions/plait.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click has no completion for {shell}")
    # The installed program derives the same variable from its name.
    script = kind(ctx.find_root().command, {}, _PROGRAM, f"_{_PROGRAM.upper()}_COMPLETE").source()
    click.echo(script)
