"""The command group: it imports a command only when that command is used.

It is also the one place where errors become a short block on stderr and an exit code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc
from typing import Any

import click

from plait.cli.examples import write_examples
from plait.cli.exits import Exit, exit_code_for
from plait.cli.suggestions import did_you_mean


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command that has not been imported: the module `plait.cli.commands.<module>`."""

    module: str

    help: str
    """One line for the list of commands; the same as the first line of the command's own help."""

    def load(self, name: str) -> click.Command:
        """Import the module and return the command of this name in it."""
        command = getattr(import_module(f"plait.cli.commands.{self.module}"), self.module)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.module} holds no click command for {name!r}")
        return command


class LazyGroup(click.Group):
    """A group whose commands are named in a table and imported on first use."""

    def __init__(
        self,
        *args: Any,
        lazy_commands: Mapping[str, LazyCommand] | None = None,
        examples: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.lazy_commands = dict(lazy_commands or {})
        self.examples = tuple(cleandoc(examples).splitlines())

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of the table: the order in which they are needed."""
        return [*self.lazy_commands, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command, if the table has it."""
        lazy = self.lazy_commands.get(cmd_name)
        return lazy.load(cmd_name) if lazy else super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for a name that does not exist, say which one may be meant."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            guess = did_you_mean(args[0], self.list_commands(ctx))
            ctx.fail(f"there is no command {args[0]!r}: {guess}")
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list of commands from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self.lazy_commands.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples after everything else."""
        super().format_epilog(ctx, formatter)
        write_examples(self.examples, formatter)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a failure becomes a few lines on stderr and an exit code."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            click.echo("\ninterrupted", err=True)
            ctx.exit(Exit.INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001 - boundary: all that is left is to show it
            from plait.cli.failures import show_failure

            show_failure(ctx, error)
            ctx.exit(exit_code_for(error))
