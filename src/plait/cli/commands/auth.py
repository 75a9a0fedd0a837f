"""`plait auth`: sign in to servers, see how the logins stand, and sign out."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from plait.cli.click_classes import ExampleCommand, ExampleGroup
from plait.cli.exits import Exit
from plait.cli.options import common_options, json_option, server_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from plait.client.transports.auth.login import LoginStatus, SignedOut
    from plait.client.transports.auth.prompts import AskPerson


@click.group(
    cls=ExampleGroup,
    examples="""
    plait auth login linear        sign in, in the browser
    plait auth status              who is signed in where?
    plait auth logout linear       forget the login
    """,
)
@common_options
def auth() -> None:
    """Sign in to servers that want OAuth, and see how the logins stand.

    A server is signed in to when its configuration says "auth": "oauth".
    """


_user_option = click.option("--user", metavar="NAME", help="Whose login, where several are kept.")


@auth.command(
    cls=ExampleCommand,
    examples="""
    plait auth login linear
    plait auth login linear --no-browser    show the address, and paste what comes back
    plait auth login linear --scope "issues:write"
    """,
)
@click.argument("server")
@click.option("--no-browser", is_flag=True, help="Show the address; paste the answer here.")
@click.option("--scope", metavar="SCOPES", help="Ask for these scopes too; blanks between them.")
@_user_option
@common_options
@click.pass_context
def login(
    ctx: click.Context, server: str, no_browser: bool, scope: str | None, user: str | None
) -> None:
    """Sign in to SERVER, whether or not there is a login.

    The one there is stands until the new one is saved.
    """
    import asyncio

    from plait.cli import session
    from plait.client.transports.auth.login import as_user, sign_in

    config = session.load_config(ctx, [server])
    wanted = as_user(config.servers[server], user)
    made = asyncio.run(sign_in(server, wanted, _asking(no_browser=no_browser), scope))
    if made is None:
        click.echo(f"{server} asks for no credentials", err=True)
        return
    granted = f" with {made.scope}" if made.scope else ""
    click.echo(f"signed in to {server}{granted}", err=True)


@auth.command(
    cls=ExampleCommand,
    examples="""
    plait auth status
    plait auth status linear --json
    """,
)
@server_arguments
@_user_option
@json_option
@common_options
@click.pass_context
def status(ctx: click.Context, servers: tuple[str, ...], user: str | None, as_json: bool) -> None:
    """Show how the logins stand, without asking any server.

    Ends with code 5 when somebody has to sign in first.
    """
    import asyncio

    from plait.cli import session
    from plait.cli.terminal import print_json, print_rich
    from plait.client.transports.auth.login import as_user, login_status

    config = session.load_config(ctx, servers)

    async def look() -> list[LoginStatus]:
        found = [
            await login_status(name, as_user(one, user)) for name, one in config.servers.items()
        ]
        return [one for one in found if one is not None]

    logins = asyncio.run(look())
    if as_json:
        print_json([one.to_dict() for one in logins])
    elif logins:
        print_rich(status_table(logins, time.time()))
    else:
        click.echo("no server is signed in to with OAuth", err=True)
    if any(_lacks_person(one, time.time()) for one in logins):
        ctx.exit(Exit.AUTH)


@auth.command(cls=ExampleCommand, examples="plait auth logout linear")
@click.argument("server")
@_user_option
@common_options
@click.pass_context
def logout(ctx: click.Context, server: str, user: str | None) -> None:
    """Forget the login of SERVER, and the client that was registered for it.

    The authorization server is told to end the login too, where it knows how;
    whatever it says, the login is gone from this machine.
    """
    import asyncio

    from plait.cli import session
    from plait.client.transports.auth.login import as_user, sign_out

    config = session.load_config(ctx, [server])
    done = asyncio.run(sign_out(server, as_user(config.servers[server], user)))
    click.echo(_farewell(server, done), err=True)


def _farewell(server: str, done: SignedOut) -> str:
    if not done.was_signed_in:
        return f"not signed in to {server}"
    if done.revoked:
        return f"signed out of {server}; the authorization server has ended the login"
    if done.failure is not None:
        return (
            f"signed out of {server} on this machine only: {done.failure}; until it ends by "
            "itself, the login can be ended where you manage your account"
        )
    return f"signed out of {server}; the authorization server offers no way to end a login early"


def status_table(logins: Sequence[LoginStatus], now: float) -> Table:
    """Draw the logins, one line each."""
    from rich.table import Table
    from rich.text import Text

    from plait.cli.terminal import visible

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in ("", "server", "user", "login", "scopes", "authorization server"):
        table.add_column(column, overflow="fold")
    for one in logins:
        fine = not _lacks_person(one, now)
        table.add_row(
            Text("✓" if fine else "✗", "green" if fine else "red"),
            Text(one.server, "bold"),
            one.user or "–",
            state_of(one, now),
            Text(visible(" ".join(one.scopes)) or "–"),
            Text(visible(one.issuer or "–")),
        )
    return table


def state_of(one: LoginStatus, now: float) -> str:
    """Say in a few words how a login stands."""
    if one.grant == "client_credentials":
        return "with its own credentials"
    if not one.signed_in:
        return "not signed in"
    if one.expires_at is None:
        return "signed in"
    if one.expires_at <= now:
        return "renewed on next use" if one.renewable else "over"
    minutes = int((one.expires_at - now) // 60)
    left = f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
    return f"signed in, renewed in {left}" if one.renewable else f"signed in for {left}"


def _lacks_person(one: LoginStatus, now: float) -> bool:
    if one.grant == "client_credentials":
        return False
    over = one.expires_at is not None and one.expires_at <= now and not one.renewable
    return not one.signed_in or over


def _asking(*, no_browser: bool) -> AskPerson:
    """Choose how to ask: where no browser can be opened, the terminal does."""
    from dataclasses import replace

    from mcp.client.auth import OAuthFlowError

    from plait.client.transports.auth.loopback import open_browser
    from plait.client.transports.auth.prompts import by_browser, by_terminal

    def show(address: str) -> None:
        click.echo(f"Open this address in a browser, and sign in:\n\n{address}\n", err=True)

    def show_and_ask(address: str) -> None:
        show(address)
        click.echo("Then paste the address of the page you end on (it need not load):", err=True)

    async def show_and_open(address: str) -> None:
        show(address)
        try:
            await open_browser(address)
        except OAuthFlowError as error:
            click.echo(f"{error}; waiting for you to open it", err=True)

    if no_browser:
        return by_terminal(show_and_ask, sys.stdin.readline)
    return lambda settings, login: by_browser(replace(settings, on_redirect=show_and_open), login)
