"""Click classes: commands with examples, and the main group, which imports commands on first use.

The main group is also where errors become a short block on stderr and an exit code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import cleandoc
from typing import Any

import click

from plait._support.suggestions import suggest_names
from plait.cli.exits import Exit, exit_code_for
from plait.cli.options import common_options


class ExampleCommand(click.Command):
    """A command with the common options, whose docstring may end with a section of examples."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(common_options())
        self.help, _, examples = cleandoc(self.help or "").partition("\n\nExamples:\n")
        self.examples = tuple(cleandoc(examples).splitlines())

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples after everything else, unwrapped so that they can be pasted."""
        super().format_epilog(ctx, formatter)
        if not self.examples:
            return
        with formatter.section("Examples"):
            for line in self.examples:
                formatter.write(f"{' ' * formatter.current_indent}{line}\n")


class ExampleGroup(ExampleCommand, click.Group):
    """A command group whose help ends with examples, as does that of its commands."""

    command_class = ExampleCommand


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command that has not been imported: the module `plait.cli.commands.<module>`."""

    module: str
    help: str
    """One line for the list of commands; the same as the first line of the command's own help."""

    def load(self, name: str) -> click.Command:
        """Import the module and return the command of this name in it."""
        command = getattr(import_module(f"plait.cli.commands.{self.module}"), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{self.module} holds no click command for {name!r}")
        return command


class LazyGroup(ExampleGroup):
    """A group whose commands are listed in a table and imported on first use."""

    def __init__(
        self, *args: Any, lazy_commands: Mapping[str, LazyCommand] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.lazy_commands = dict(lazy_commands or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the order of the table."""
        return [*self.lazy_commands, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, importing it if needed."""
        lazy = self.lazy_commands.get(cmd_name)
        return lazy.load(cmd_name) if lazy else super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; suggest the nearest names for an unknown one."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            guess = suggest_names(args[0], self.list_commands(ctx))
            ctx.fail(f"there is no command {args[0]!r}: {guess}")
        return super().resolve_command(ctx, args)

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self.lazy_commands.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn an exception into a message on stderr and an exit code."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            click.echo("\ninterrupted", err=True)
            ctx.exit(Exit.INTERRUPTED)
        except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception as error:  # noqa: BLE001 - boundary: shown to the user
            from plait.cli.failures import show_failure

            show_failure(ctx, error)
            ctx.exit(exit_code_for(error))
