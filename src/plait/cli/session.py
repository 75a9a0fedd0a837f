"""Read the configuration and open the toolbox of a command."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import (
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import click

from plait._support.logs import hide_in_logs
from plait._support.suggestions import suggest_names
from plait.cli import terminal
from plait.cli.base import settings_of
from plait.cli.exits import Exit, exit_code_for
from plait.cli.trust import trusted
from plait.errors import CircuitOpenError, PlaitError, UnknownServerError
from plait.html.pieces import seconds_label

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Group

    from plait.client.config.read import ClientConfig, InputRequest
    from plait.client.config.servers import ServerConfig
    from plait.client.connections.status import Status
    from plait.client.protocol.session import OnElicitation
    from plait.client.toolbox import Toolbox

T = TypeVar("T")


def load_config(
    ctx: click.Context, servers: Sequence[str] = (), *, heal: bool = False
) -> ClientConfig:
    """Find and read the configuration, and keep the named servers; no names keeps all.

    With `heal`, a broken connection is reopened; otherwise the first failure is final.
    """
    return narrowed(read_configuration(ctx), servers, heal=heal)


def read_configuration(ctx: click.Context, *, may_ask: bool = True) -> ClientConfig:
    """Find and read the whole configuration, and redact its secrets in the log.

    One that was found in the working folder must be approved; with `may_ask`, a person is asked.
    """
    from plait.cli.found_config import find_config
    from plait.client.config.read import read_config
    from plait.client.config.secrets import secret_values

    settings = settings_of(ctx)
    found = find_config(settings.config)
    with trusted(ctx, found, may_ask=may_ask):
        config = read_config(found.path, ask=_ask if may_ask and sys.stdin.isatty() else None)
    settings.servers = config.servers
    hide_in_logs(secret for server in config.servers.values() for secret in secret_values(server))
    return config


def has_configuration(ctx: click.Context) -> bool:
    """Return whether a configuration is named, or exists in a default location."""
    from plait.cli.found_config import ENVIRONMENT_VARIABLE, config_places

    named = settings_of(ctx).config is not None or bool(os.environ.get(ENVIRONMENT_VARIABLE))
    return named or any(place.is_file() for place in config_places())


def narrowed(config: ClientConfig, servers: Sequence[str], *, heal: bool) -> ClientConfig:
    """Keep the named servers, with settings for one command: complete results, no waiting."""
    config = with_servers(config, servers)
    kept: dict[str, ServerConfig] = {}
    for name, one in config.servers.items():
        # One that cannot be reached is reported, required or not, without waiting for it.
        reconnect = replace(one.reconnect, enabled=one.reconnect.enabled and heal, max_attempts=1)
        kept[name] = replace(
            one, required=False, reconnect=reconnect, result_budget=None, defer=None
        )
    # The terminal shows complete results; there is no later call to read on.
    unused = {"result_budget", "defer"}
    options = {name: one for name, one in config.options.items() if name not in unused}
    return replace(config, servers=kept, options=options)


def with_servers(config: ClientConfig, servers: Sequence[str]) -> ClientConfig:
    """Keep the named servers, in the order of the configuration; no names keeps all."""
    for name in servers:
        if name in config.disabled:
            raise UnknownServerError(f"the server {name!r} is disabled in {config.source}")
        if name not in config.servers:
            server, _, tool = name.partition("/")
            guess = suggest_names(name, config.servers)
            if tool and server in config.servers:
                guess = f"write the server and the tool as two words: {server} {tool}"
            raise UnknownServerError(f"there is no server {name!r}: {guess}", server=name)
    if not servers:
        return config
    kept = {name: server for name, server in config.servers.items() if name in servers}
    options = dict(config.options)
    fallbacks = cast("Mapping[str, str]", options.get("fallbacks") or {})
    if fallbacks:
        options["fallbacks"] = {
            name: backup for name, backup in fallbacks.items() if name in kept and backup in kept
        }
    return replace(config, servers=kept, options=options)


def unfiltered(config: ClientConfig) -> ClientConfig:
    """Return the configuration without filters and other options, to list every tool unchanged."""
    servers = {
        name: replace(server, include=None, exclude=()) for name, server in config.servers.items()
    }
    return replace(config, servers=servers, options={"sanitize": False})


def run_in_toolbox(
    ctx: click.Context,
    config: ClientConfig,
    work: Callable[[Toolbox], Awaitable[T]],
    *,
    show_progress: bool = True,
    on_elicitation: Callable[[str], OnElicitation] | None = None,
) -> T:
    """Open the toolbox, run `work`, and close everything, also after Ctrl-C.

    The elicitation capability is declared if `on_elicitation` is set.
    """
    from plait.client.toolbox import Toolbox

    async def main() -> T:
        async with (
            Toolbox(config, on_elicitation=on_elicitation) as box,
            connecting(ctx, box) if show_progress else nullcontext(),
        ):
            return await work(box)

    try:
        return asyncio.run(main())
    except CircuitOpenError as error:
        # Within one command the circuit breaker only repeats an earlier error.
        seen = error.__cause__ if isinstance(error.__cause__, PlaitError) else error
        raise seen from seen.__cause__


def connecting(ctx: click.Context, box: Toolbox) -> AbstractAsyncContextManager[None]:
    """Show the state of every server while a block runs, unless only results are to be printed."""

    def view(elapsed_seconds: float) -> Group:
        return progress_view(box.status(), elapsed_seconds)

    return terminal.Spinner(view, hidden=prints_only_results(ctx)).shown()


def prints_only_results(ctx: click.Context) -> bool:
    """Return whether progress is unwanted, or would be torn apart by the log."""
    settings = settings_of(ctx)
    logs = settings.verbosity > 0 or settings.wire is not None
    return settings.quiet or logs or bool(ctx.params.get("as_json"))


def progress_view(status: Status, elapsed_seconds: float) -> Group:
    """Make one line per server: a spinner, tick or cross, and its state."""
    from rich.console import Group
    from rich.text import Text

    width = max(map(len, status.servers), default=0)
    lines: list[Text] = []
    for server in status.servers.values():
        mark, style = terminal.spinner_frame(elapsed_seconds), "cyan"
        detail = f"{server.state} over {server.transport} … {elapsed_seconds:.0f} s"
        if server.state == "ready":
            mark, style = "✓", "green"
            detail = f"ready in {seconds_label(server.connect_seconds)}"
        elif server.error is not None:
            mark, style = "✗", "red"
            detail = error_line(server.name, server.error).removeprefix(f"{server.name}: ")
        parts = (
            (f"{mark} ", style),
            server.name.ljust(width + 2),
            (terminal.visible(detail), "dim"),
        )
        lines.append(Text.assemble(*parts, no_wrap=True, overflow="ellipsis"))
    return Group(*lines)


def query_server(
    ctx: click.Context,
    server: str,
    query: Callable[[Toolbox], Awaitable[T]],
    fields: Mapping[str, object],
    *,
    show_progress: bool = True,
    on_elicitation: Callable[[str], OnElicitation] | None = None,
) -> T:
    """Query one server; `fields` are those of the JSON object of an error."""
    with json_errors(ctx, server=server, **fields):
        config = load_config(ctx, [server], heal=True)
        return run_in_toolbox(
            ctx, config, query, show_progress=show_progress, on_elicitation=on_elicitation
        )


@dataclass(frozen=True, slots=True)
class ServerResults(Generic[T]):
    """Results and errors by server, in the order of the configuration."""

    results: Mapping[str, T]
    errors: Mapping[str, PlaitError]


def query_servers(
    ctx: click.Context, config: ClientConfig, query: Callable[[Toolbox, str], Awaitable[T]]
) -> ServerResults[T]:
    """Open the toolbox, and query every server of the configuration concurrently."""
    return run_in_toolbox(ctx, config, lambda box: query_each(config.servers, partial(query, box)))


async def query_each(
    servers: Iterable[str], query: Callable[[str], Awaitable[T]]
) -> ServerResults[T]:
    """Query all servers concurrently; the failure of one does not affect the others."""

    async def query_one(name: str) -> T | PlaitError:
        try:
            return await query(name)
        except PlaitError as error:
            return error

    names = list(servers)
    answers = dict(zip(names, await asyncio.gather(*map(query_one, names)), strict=True))
    errors = {name: one for name, one in answers.items() if isinstance(one, PlaitError)}
    results = {name: one for name, one in answers.items() if not isinstance(one, PlaitError)}
    return ServerResults(results, errors)


def print_errors(errors: Mapping[str, PlaitError]) -> None:
    """Print on stderr which servers are missing from a result, and why."""
    for name, error in errors.items():
        terminal.print_aside("warning", error_line(name, error), colour="yellow")


def error_line(server: str, error: PlaitError) -> str:
    """Fold an error to one line that names the server."""
    reason = " ".join(str(error).split())
    return reason if reason.startswith(f"{server}:") else f"{server}: {reason}"


def exit_if_missing(ctx: click.Context, queried: ServerResults[T]) -> None:
    """Print which servers are missing from a result; exit with code 3 if there are any."""
    print_errors(queried.errors)
    if queried.errors:
        ctx.exit(Exit.UNREACHABLE)


@contextmanager
def json_errors(ctx: click.Context, **fields: object) -> Generator[None]:
    """With `--json`, print an error as a JSON object with these fields, and exit with its code."""
    try:
        yield
    except PlaitError as error:
        if not ctx.params.get("as_json"):
            raise
        terminal.print_json({**fields, "error": error.to_dict()})
        ctx.exit(exit_code_for(error))


def wire_object(model: BaseModel) -> dict[str, Any]:
    """Return a value of the protocol as JSON, with the field names of the protocol."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _ask(request: InputRequest) -> str:
    """Prompt for an `${input:…}` on the terminal."""
    answer: str = click.prompt(
        request.description or request.id,
        hide_input=request.password,
        default=request.default,
        show_default=not request.password,
        type=click.Choice(request.options) if request.options else str,
        err=True,
    )
    return answer
