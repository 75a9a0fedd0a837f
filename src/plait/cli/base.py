"""What commands are made of: click classes, shared options, and the group of all commands.

The group imports commands on first use, and turns errors into a short block and an exit code.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from inspect import cleandoc
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from plait._support.logs import WireLog, configure_logging, silence_other_logs
from plait._support.suggestions import suggest_names
from plait.cli.completion import complete_servers
from plait.cli.exits import ArgumentError, Exit, exit_code_for

if TYPE_CHECKING:
    from plait.client.config.servers import ServerConfig
    from plait.serve.first_answers import Conversation

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(slots=True)
class Settings:
    """The values of the common options, set while the command line is parsed."""

    config: str | None = None
    verbosity: int = 0
    wire: WireLog | None = None
    quiet: bool = False
    trust: bool = False
    """Whether the configuration of the working folder is approved."""
    servers: Mapping[str, ServerConfig] = field(default_factory=dict[str, "ServerConfig"])
    """The servers of the configuration, once it has been read."""
    begun: Conversation | None = None
    """What the client of `plait serve` was answered before the command line was imported."""


def settings_of(ctx: click.Context) -> Settings:
    """Return the settings that a command shares with its group."""
    return ctx.ensure_object(Settings)


class CommonOption(click.Option):
    """An option that every command has; only the help of `plait` itself lists it."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return its line in the help."""
        return None if ctx.parent else super().get_help_record(ctx)


def _common_options() -> list[click.Parameter]:
    """Make the options that every command has; they set the settings that it shares."""

    def set_config(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None:
            settings_of(ctx).config = value

    def set_verbosity(ctx: click.Context, _: click.Parameter, value: int) -> None:
        settings = settings_of(ctx)
        settings.verbosity = max(settings.verbosity, value)
        silence_other_logs()
        configure_logging(settings.verbosity, wire=settings.wire)

    def set_wire(ctx: click.Context, _: click.Parameter, value: int) -> None:
        if value:
            settings = settings_of(ctx)
            settings.wire = "full" if value > 1 or settings.wire == "full" else "cut"
            configure_logging(settings.verbosity, wire=settings.wire)

    def set_quiet(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        settings_of(ctx).quiet |= value

    def set_trust(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        # A completion in the shell parses the command line too, and approves nothing.
        settings_of(ctx).trust |= value and not ctx.resilient_parsing

    option = partial(CommonOption, expose_value=False)
    config_help = "The mcp.json to use."
    quiet_help = "Print only results: no progress, no notes."
    trust_help = "Approve the mcp.json, or manifest, found in this folder."
    verbose_help = "Log to stderr; -vv includes messages and libraries."
    wire_help = "Show each message to and from the servers; --wire=full does not cut them."
    return [
        option(["-c", "--config"], metavar="PATH", callback=set_config, help=config_help),
        option(["--trust"], is_flag=True, callback=set_trust, help=trust_help),
        option(["-v", "--verbose"], count=True, callback=set_verbosity, help=verbose_help),
        option(["--wire"], count=True, callback=set_wire, help=wire_help),
        option(["-q", "--quiet"], is_flag=True, callback=set_quiet, help=quiet_help),
    ]


json_option = click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout.")
server_arguments = click.argument(
    "servers", metavar="[SERVER]…", nargs=-1, shell_complete=complete_servers
)
server_argument = click.argument("server", shell_complete=complete_servers)


def repeatable(flag: str, name: str, metavar: str, about: str) -> Callable[[Command], Command]:
    """Add an option that may be repeated, passed to the command as a tuple."""
    about += "; may be repeated."
    return click.option(flag, name, metavar=metavar, multiple=True, help=about)


class _Seconds(click.FloatRange):
    """A positive number of seconds; click's range accepts NaN and infinity."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds


def limit(flag: str, metavar: str, about: str, **settings: Any) -> Callable[[Command], Command]:
    """Add an option that takes a number: a whole one from 1 on, unless the settings have a type."""
    names = [flag, *([settings.pop("name")] if "name" in settings else [])]
    settings = {"type": click.IntRange(min=1), "metavar": metavar, "help": about, **settings}
    return click.option(*names, **settings)


AMOUNT = click.FloatRange(min=0, min_open=True)
"""More than nothing."""


def timeout_option(about: str) -> Callable[[Command], Command]:
    """Add `--timeout`, passed to the command as `timeout_seconds`."""
    kind = _Seconds(min=0, min_open=True)
    return click.option("--timeout", "timeout_seconds", type=kind, metavar="SECONDS", help=about)


LISTS_OF_VALUES = {"SERVER": "servers", "TOOL": "tools", "URI": "resources", "NAME": "prompts"}
"""The commands that list what an argument may be, where the first one is a server."""


class ExampleCommand(click.Command):
    """A command with the common options, whose docstring may end with a section of examples."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_common_options())
        self.help, _, examples = cleandoc(self.help or "").partition("\n\nExamples:\n")
        self.examples = tuple(cleandoc(examples).splitlines())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; `--wire` may have a value, for which click gets it twice."""
        words = (["--wire"] * 2 if one == "--wire=full" else [one] for one in args)
        try:
            return super().parse_args(ctx, list(chain.from_iterable(words)))
        except click.MissingParameter as error:
            if not isinstance(error.param, click.Argument):
                raise
            raise self.missing_argument(ctx, error.param.make_metavar(ctx)) from None

    def missing_argument(self, ctx: click.Context, name: str) -> ArgumentError:
        """Return the error of a command without an argument; its hint has a call that works."""
        command = " ".join(["plait", *ctx.command_path.split()[1:]])
        error = ArgumentError(f"{command} needs {name}")
        arguments = [one for one in self.params if isinstance(one, click.Argument) and one.required]
        words = [ctx.params.get(one.name or "") or one.make_metavar(ctx) for one in arguments]
        if arguments and arguments[0].name == "server" and name in LISTS_OF_VALUES:
            server = ctx.params.get("server") or ""
            shown = f"plait {LISTS_OF_VALUES[name]} {server}".strip()
            error.hint = f"{shown} lists them, then: {' '.join([command, *words])}"
        elif self.examples:
            error.hint = self.examples[0].partition("   ")[0]
        return error

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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each command does in a whole sentence, which click would cut."""
        rows = [
            (name, command.get_short_help_str(limit=sys.maxsize))
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command that has not been imported: the module `plait.cli.commands.<module>`."""

    module: str
    help: str
    """One line for the list of commands; the same as the first line of the command's own help."""

    def load(self, name: str) -> click.Command:
        """Import the module and return the command of this name in it."""
        command: click.Command = getattr(import_module(f"plait.cli.commands.{self.module}"), name)
        return command


class LazyGroup(ExampleGroup):
    """A group whose commands are listed in tables by heading, and imported on first use."""

    def __init__(
        self, *args: Any, lazy_commands: Mapping[str, Mapping[str, LazyCommand]], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.headings = lazy_commands
        self.lazy_commands = {
            name: lazy for group in lazy_commands.values() for name, lazy in group.items()
        }

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
        known = not args or args[0].startswith("-") or args[0] in self.lazy_commands
        if not known and not ctx.resilient_parsing:
            guess = suggest_names(args[0], self.lazy_commands)
            ctx.fail(f"there is no command {args[0]!r}: {guess}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete options, or the names of commands without importing them."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        commands = self.lazy_commands.items()
        return [
            CompletionItem(name, help=lazy.help)
            for name, lazy in commands
            if name.startswith(incomplete)
        ]

    def format_commands(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        formatter: click.HelpFormatter,
    ) -> None:
        """Write the list of commands without importing them."""
        width = max(map(len, self.lazy_commands))
        for heading, commands in self.headings.items():
            with formatter.section(heading):
                formatter.write_dl(
                    [(name.ljust(width), one.help) for name, one in commands.items()]
                )

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the command line; help is printed here."""
        with _reader_may_leave():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn an exception into a message on stderr and an exit code."""
        with _reader_may_leave():
            try:
                return super().invoke(ctx)
            except (KeyboardInterrupt, click.Abort) as error:
                # click ends a question without an answer, such as at the end of the input.
                is_question = isinstance(error, click.Abort)
                reason = "stopped: not confirmed" if is_question else "interrupted"
                click.echo(f"\n{reason}", err=True)
                ctx.exit(Exit.INTERRUPTED)
            except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
                raise
            except Exception as error:  # noqa: BLE001 - boundary: shown to the user
                from plait.cli.advice import show_failure

                show_failure(ctx, error)
                ctx.exit(exit_code_for(error))


@contextmanager
def _reader_may_leave() -> Generator[None]:
    """Run a block whose output is read as far as somebody wants, such as by `head`."""
    try:
        try:
            yield
        finally:
            # A closed pipe is found here, not at the end of the interpreter.
            sys.stdout.flush()
    except BrokenPipeError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        earlier = error.__context__
        code = earlier.exit_code if isinstance(earlier, click.exceptions.Exit) else Exit.OK
        raise click.exceptions.Exit(code) from None
