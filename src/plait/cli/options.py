"""Options and arguments that commands share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import click

from plait._support.logs import configure_logging

if TYPE_CHECKING:
    from plait.client.config.servers import ServerConfig

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(slots=True)
class Settings:
    """The values of the common options, set while the command line is parsed."""

    config: str | None = None
    verbosity: int = 0
    quiet: bool = False
    servers: Mapping[str, ServerConfig] = field(default_factory=dict[str, "ServerConfig"])
    """The servers of the configuration, once it has been read."""


def settings_of(ctx: click.Context) -> Settings:
    """Return the settings that a command shares with its group."""
    return ctx.ensure_object(Settings)


def common_options() -> list[click.Parameter]:
    """Make `--config`, `--verbose` and `--quiet`, which every command takes."""
    option = partial(click.Option, expose_value=False)
    config_help = "The mcp.json to use."
    quiet_help = "Print only results: no progress, no notes."
    verbose_help = "Log to stderr; -vv includes the libraries."
    return [
        option(["-c", "--config"], metavar="PATH", callback=_set_config, help=config_help),
        option(["-v", "--verbose"], count=True, callback=_set_verbosity, help=verbose_help),
        option(["-q", "--quiet"], is_flag=True, callback=_set_quiet, help=quiet_help),
    ]


def json_option(command: Command) -> Command:
    """Add `--json`, passed to the command as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout.")(
        command
    )


class _Seconds(click.FloatRange):
    """A positive number of seconds; click's range accepts NaN and infinity."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a number of seconds.", param, ctx)
        return seconds


def timeout_option(help_text: str) -> Callable[[Command], Command]:
    """Add `--timeout`, passed to the command as `timeout_seconds`."""
    return click.option(
        "--timeout",
        "timeout_seconds",
        type=_Seconds(min=0, min_open=True),
        metavar="SECONDS",
        help=help_text,
    )


def server_arguments(command: Command) -> Command:
    """Add `[SERVER]…`, passed to the command as `servers`."""
    return click.argument("servers", metavar="[SERVER]…", nargs=-1)(command)


def _set_config(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        settings_of(ctx).config = value


def _set_verbosity(ctx: click.Context, _: click.Parameter, value: int) -> None:
    settings = settings_of(ctx)
    settings.verbosity = max(settings.verbosity, value)
    configure_logging(settings.verbosity)


def _set_quiet(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        settings_of(ctx).quiet = True
