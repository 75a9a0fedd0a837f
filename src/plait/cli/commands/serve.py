"""`plait serve`: all servers of an mcp.json as one MCP server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import click

from plait.cli.base import ExampleGroup, repeatable
from plait.cli.session import read_configuration, with_servers
from plait.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from plait.client.config.read import ClientConfig
    from plait.serve.names import Naming
    from plait.serve.session import ClientSession
    from plait.serve.upstream import Upstream


@click.group(cls=ExampleGroup, invoke_without_command=True)
@repeatable("--only", "servers", "SERVER", "Serve only these servers")
@repeatable("--include", "include", "TOOL", "Offer only these tools, by name or glob")
@repeatable("--exclude", "exclude", "TOOL", "Do not offer these tools, by name or glob")
@click.option(
    "--names",
    "naming",
    type=click.Choice(["server", "plain"]),
    default="server",
    show_default=True,
    help="Call tools server__tool, or, for a single server, as it does.",
)
@click.option("--search", is_flag=True, help="Offer a search in place of the tools.")
@click.option(
    "--http", "address", metavar="[HOST:]PORT", help="Serve Streamable HTTP, for several clients."
)
@repeatable("--allowed-host", "allowed_hosts", "NAME", "A name under which this server is reached")
@click.pass_context
def serve(
    ctx: click.Context,
    servers: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    naming: Naming,
    search: bool,
    address: str | None,
    allowed_hosts: tuple[str, ...],
) -> None:
    """Serve all servers as one MCP server, whose sessions heal.

    A client starts this command, and talks to it on standard input and output; with --http it
    listens for clients. A server behind that stops is started again, and no call that may have
    run is repeated.

    Examples:
        plait serve                             every server of the mcp.json
        plait serve --only github --only files  two of them
        plait serve --only time --names plain   one, with its own names
        plait serve --search                    two tools find and call the others
        plait serve --http 8000                 for clients that speak Streamable HTTP
    """
    if ctx.invoked_subcommand is not None:
        return
    from plait.serve.session import ClientSession
    from plait.serve.snapshot import Snapshot
    from plait.serve.upstream import Upstream

    config = _served(read_configuration(ctx), servers, include, exclude)
    if naming == "plain" and len(config.servers) > 1:
        raise click.UsageError("--names plain is for one server: add --only SERVER")
    choices = (naming, *servers, "|", *include, "|", *exclude)

    def open_upstream(session: ClientSession) -> Upstream:
        # Servers may offer other tools to clients that can do more.
        snapshot = Snapshot.of(config, *choices, *sorted(session.capabilities))
        return Upstream(config, session, snapshot, naming, search=search)

    if address is None:
        from plait.serve.stdio import serve_stdio

        asyncio.run(serve_stdio(ClientSession("the client", open_upstream)))
    else:
        _serve_http(address, allowed_hosts, open_upstream)


def _serve_http(
    address: str, allowed_hosts: tuple[str, ...], open_upstream: Callable[[ClientSession], Upstream]
) -> None:
    from plait._support.local_server import LOOPBACK, listen
    from plait.serve.http import PATH, HttpOptions, HttpServer, serve_http
    from plait.serve.session import ClientSession
    from plait.serve.tokens import read_tokens, tokens_path

    host, _, port = address.rpartition(":")
    host = host or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"{address!r} is no address to listen on: write HOST:PORT, or PORT")
    tokens = tokens_path()
    has_tokens = bool(read_tokens(tokens))
    if host not in LOOPBACK:
        if not has_tokens:
            raise ConfigError(
                f"{host} can be reached by others: create a token for each client with "
                "plait serve token add NAME"
            )
        if not allowed_hosts:
            raise ConfigError(
                f"{host} can be reached by others: say with --allowed-host under which names"
            )
    options = HttpOptions(tokens=tokens if has_tokens else None, allowed_hosts=allowed_hosts)
    server = HttpServer(lambda name: ClientSession(name or "a client", open_upstream), options)
    try:
        listener = listen(host.strip("[]"), int(port))
    except OSError as error:
        raise ConfigError(f"cannot listen on {address}: {error.strerror}") from error
    with listener:
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        click.echo(f"serving http://{shown}:{listener.getsockname()[1]}{PATH}", err=True)
        asyncio.run(serve_http(server, options, listener))


@serve.group("token", cls=ExampleGroup)
def token_group() -> None:
    """Manage the tokens of clients over HTTP.

    With a token or more, every client must send one; each has servers of its own behind.

    Examples:
        plait serve token add laptop
        plait serve token list
        plait serve token remove laptop
    """


@token_group.command("add")
@click.argument("name")
def add(name: str) -> None:
    """Create a token for a client, and print it; it is not shown again."""
    from plait.serve.tokens import add_token, tokens_path

    click.echo(add_token(tokens_path(), name))


@token_group.command("list")
def list_tokens() -> None:
    """List the clients that have a token."""
    from plait.serve.tokens import read_tokens, tokens_path

    for name in read_tokens(tokens_path()):
        click.echo(name)


@token_group.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Remove the token of a client, which is refused from then on."""
    from plait.serve.tokens import remove_token, tokens_path

    remove_token(tokens_path(), name)


def _served(
    config: ClientConfig,
    servers: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
) -> ClientConfig:
    """Keep the named servers and tools; no names keeps all."""
    config = with_servers(config, servers)
    options = dict(config.options)
    if include:
        options["include"] = include
    if exclude:
        known = cast("tuple[str, ...]", options.get("exclude") or ())
        options["exclude"] = (*known, *exclude)
    return replace(config, options=options)
