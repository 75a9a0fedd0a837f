"""`plait auth`: sign in to servers, show login status, and sign out."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click
from rich.text import Text

from plait.cli import session
from plait.cli.base import ExampleGroup, json_option, server_argument, server_arguments
from plait.cli.diagnosis import login_findings
from plait.cli.exits import Exit
from plait.cli.terminal import cell, plain_table, print_json, print_rich, tick

if TYPE_CHECKING:
    from plait.cli.logins import LoginStatus
    from plait.client.transports.auth.sign_in import OpenPrompt


@click.group(cls=ExampleGroup)
def auth() -> None:
    """Sign in to servers with OAuth, and show login status.

    OAuth is used for servers with "auth": "oauth" in the configuration.

    Examples:
        plait auth login linear        sign in, in the browser
        plait auth status              show all logins
        plait auth logout linear       remove the login
    """


_user_option = click.option("--user", metavar="NAME", help="The user, where several have a login.")


@auth.command()
@server_argument
@click.option("--no-browser", is_flag=True, help="Show the URL; paste the redirect URL here.")
@click.option("--scope", metavar="SCOPES", help="Request these scopes too, separated by spaces.")
@_user_option
@click.pass_context
def login(
    ctx: click.Context, server: str, no_browser: bool, scope: str | None, user: str | None
) -> None:
    """Sign in to SERVER, even if there is a login already.

    An existing login is kept until the new one is saved.

    Examples:
        plait auth login linear
        plait auth login linear --no-browser    show the URL, and paste the redirect
        plait auth login linear --scope "issues:write"
    """
    from plait.cli.logins import as_user, sign_in

    config = session.load_config(ctx, [server])
    target = as_user(config.servers[server], user)
    token = asyncio.run(sign_in(server, target, _prompt_for(no_browser=no_browser), scope))
    if token is None:
        click.echo(f"{server} needs no credentials", err=True)
        return
    granted = f" with {token.scope}" if token.scope else ""
    click.echo(f"signed in to {server}{granted}", err=True)


@auth.command()
@server_arguments
@_user_option
@json_option
@click.pass_context
def status(ctx: click.Context, servers: tuple[str, ...], user: str | None, as_json: bool) -> None:
    """Show login status, without contacting servers.

    Exits with code 5 if a server needs a login.

    Examples:
        plait auth status
        plait auth status linear --json
    """
    from plait.cli.logins import as_user, login_status

    config = session.load_config(ctx, servers)

    async def read_logins() -> list[LoginStatus]:
        servers = config.servers.items()
        found = [await login_status(name, as_user(server, user)) for name, server in servers]
        return [login for login in found if login is not None]

    logins, now = asyncio.run(read_logins()), time.time()
    needing = [
        one for one in logins if any(found.level == "error" for found in login_findings(one, now))
    ]
    if as_json:
        print_json([login.to_dict() for login in logins])
    elif logins:
        table = plain_table(
            *("", "server", "user", "login", "scopes", "authorization server"),
            dispensable=("authorization server", "scopes", "user"),
        )
        for one in logins:
            name, scopes = Text(one.server, "bold"), cell(" ".join(one.scopes))
            state, issuer = state_of(one, now), cell(one.issuer)
            table.add_row(tick(one not in needing), name, one.user or "–", state, scopes, issuer)
        print_rich(table)
    else:
        click.echo("no server uses OAuth", err=True)
    if needing:
        ctx.exit(Exit.AUTH)


@auth.command()
@server_argument
@_user_option
@click.pass_context
def logout(ctx: click.Context, server: str, user: str | None) -> None:
    """Remove the login of SERVER and its registered client.

    The tokens are revoked at the authorization server, if it supports that; they
    are removed from this machine in any case.

    Examples:
        plait auth logout linear
    """
    from plait.cli.logins import as_user, sign_out

    config = session.load_config(ctx, [server])
    result = asyncio.run(sign_out(server, as_user(config.servers[server], user)))
    message = f"signed out of {server}; the authorization server cannot revoke tokens"
    if not result.was_signed_in:
        message = f"not signed in to {server}"
    elif result.revoked:
        message = f"signed out of {server}; the tokens are revoked"
    elif result.failure is not None:
        message = (
            f"signed out of {server} on this machine only: {result.failure}; "
            "revoke the tokens in your account, or wait until they expire"
        )
    click.echo(message, err=True)


def state_of(login: LoginStatus, now: float) -> str:
    """Describe the state of a login in a few words."""
    if login.grant == "client_credentials":
        return "client credentials"
    if not login.signed_in:
        return "not signed in"
    if login.expires_at is None:
        return "signed in"
    if login.expires_at <= now:
        return "renewed on next use" if login.renewable else "expired"
    minutes = int((login.expires_at - now) // 60)
    left = f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
    return f"signed in, renewed in {left}" if login.renewable else f"signed in for {left}"


def _prompt_for(*, no_browser: bool) -> OpenPrompt:
    """Return how the user is sent to the authorization server: browser or terminal."""
    from plait.client.transports.auth.authorization_servers import OAuthError
    from plait.client.transports.auth.sign_in import (
        open_browser,
        prompt_in_browser,
        prompt_in_terminal,
    )

    def show(address: str) -> None:
        click.echo(f"Open this URL in a browser, and sign in:\n\n{address}\n", err=True)

    def show_and_ask(address: str) -> None:
        show(address)
        request = "Then paste the URL of the page you are redirected to (it need not load):"
        click.echo(request, err=True)

    async def show_and_open(address: str) -> None:
        show(address)
        try:
            await open_browser(address)
        except OAuthError as error:
            click.echo(f"{error}; waiting for you to open it", err=True)

    if no_browser:
        return prompt_in_terminal(show_and_ask, sys.stdin.readline)
    return lambda settings, login: prompt_in_browser(
        replace(settings, on_redirect=show_and_open), login
    )
