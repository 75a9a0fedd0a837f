"""What `plait doctor` finds about logins and the credentials of servers; pure."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from plait._support.redact import looks_secret
from plait.cli.doctor.findings import Examined, Finding, Level
from plait.client.config.oauth import OAuth
from plait.client.config.servers import HttpServer, RemoteOptions, ServerConfig, SseServer
from plait.client.config.urls import is_private, public_url
from plait.errors import AuthRequiredError, ConfigError, PlaitError

if TYPE_CHECKING:
    from plait.client.transports.auth.login import LoginStatus
    from plait.client.transports.auth.probe import SignInProbe


_SHORTEST = 6
"""A shorter value may stand in a file for many reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSeen:
    """How one server is signed in to; it holds nothing secret."""

    at: float
    """When it was looked at, in seconds since 1970."""

    login: LoginStatus | None = None

    facts: SignInProbe | None = None
    """What the server and its authorization server say; `None` where nobody was asked."""

    store_failure: str | None = None
    """Why the login cannot be read."""

    open_file: str | None = None
    """The file of the login, if others can read it."""

    plain_secrets: tuple[str, ...] = ()
    """Settings whose secret is written into the configuration file."""


async def look_at_auth(
    name: str, server: ServerConfig, error: PlaitError | None, written: str
) -> AuthSeen | None:
    """Look at the login of a server and, where one is wanted, at who grants it.

    `error` is why the server could not be used, and `written` the text of the configuration.
    """
    from plait.client.transports.auth.login import login_file, login_status
    from plait.client.transports.auth.probe import probe_sign_in

    if not isinstance(server, RemoteOptions):
        return None
    login, failure, open_file = None, None, None
    try:
        login = await login_status(name, server)
        open_file = _open_to_others(login_file(server))
    except ConfigError as unreadable:
        failure = unreadable.message
    facts = None
    asked = isinstance(server.auth, OAuth) or isinstance(error, AuthRequiredError)
    if asked and isinstance(server, HttpServer | SseServer):
        facts = await probe_sign_in(name, server)
    return AuthSeen(
        at=time.time(),
        login=login,
        facts=facts,
        store_failure=failure,
        open_file=open_file,
        plain_secrets=plain_secrets(server, written),
    )


def plain_secrets(server: RemoteOptions, written: str) -> tuple[str, ...]:
    """Name the settings of a server whose secret stands as it is in the configuration."""
    settings: dict[str, str | None] = {}
    if not callable(server.headers):
        settings = {
            f"headers.{name}": value for name, value in server.headers.items() if looks_secret(name)
        }
    if isinstance(server.auth, OAuth):
        settings["auth.client_secret"] = server.auth.client_secret
        settings["auth.private_key"] = server.auth.private_key
    return tuple(name for name, value in settings.items() if value and _stands_in(value, written))


def _stands_in(value: str, written: str) -> bool:
    # Of "Bearer abc" the key counts, and of a key in lines, which JSON escapes, one of the lines.
    longest = max(value.split(), key=len, default="")
    return len(longest) >= _SHORTEST and longest in written


def _open_to_others(path: Path | None) -> str | None:
    if path is None or os.name == "nt" or not path.exists():
        return None
    return str(path) if path.stat().st_mode & 0o077 else None


_LITTLE_SECONDS = 3600.0
"""A login that nobody renews is worth a word this long before its end."""


def check_auth(seen: Examined) -> Iterator[Finding]:
    """Say what is wrong with the credentials of a server, and with how one gets them."""
    auth, server = seen.auth, seen.config
    if auth is None or not isinstance(server, RemoteOptions):
        return
    error = seen.error or seen.status.error
    refused = error is not None and error.kind == "auth"
    if auth.store_failure is not None:
        yield seen.finding(
            "error", "login_unreadable", auth.store_failure, "repair or remove it, and sign in anew"
        )
    if auth.login is not None:
        # A server that refuses has said the same, with more detail.
        found = login_findings(auth.login, auth.at)
        yield from (one for one in found if not (refused and one.level == "error"))
    if auth.open_file is not None:
        fix = f"chmod 600 {shlex.quote(auth.open_file)}"
        yield seen.finding("warn", "login_file_open", "others can read the login", fix)
    if auth.facts is not None:
        yield from _sign_in_findings(seen, server, auth.facts)
    yield from _exposure_findings(seen, server, auth.plain_secrets)


def login_findings(login: LoginStatus, now: float) -> Iterator[Finding]:
    """Say how the login of a server stands, and what to do about it."""
    fix = f"plait auth login {login.server}"
    if login.grant == "client_credentials":
        return
    if not login.signed_in:
        yield _finding(login, "error", "not_signed_in", "nobody has signed in", fix)
    elif login.renewable or login.expires_at is None:
        yield _finding(login, "ok", "signed_in", f"signed in{_with(login)}")
    elif login.expires_at <= now:
        yield _finding(login, "error", "login_over", "the login has ended", fix)
    elif login.expires_at - now < _LITTLE_SECONDS:
        minutes = int((login.expires_at - now) // 60)
        text = f"the login ends in {minutes} min, and cannot be renewed without a person"
        yield _finding(login, "warn", "login_ends", text, fix)
    else:
        yield _finding(login, "ok", "signed_in", f"signed in{_with(login)}")


def _sign_in_findings(
    seen: Examined, server: RemoteOptions, facts: SignInProbe
) -> Iterator[Finding]:
    """Hold what the servers say about signing in against the configuration and the login."""
    if not isinstance(server.auth, OAuth):
        if facts.issuer is not None:
            text = f"people sign in to it at {public_url(facts.issuer)}"
            fix = f'set "auth": "oauth", then: plait auth login {seen.name}'
            yield seen.finding("warn", "oauth_offered", text, fix)
        return
    if facts.asks is False:
        text = "asks for no login"
        yield seen.finding("ok", "no_login_needed", text, 'the setting "auth" can be left out')
        return
    if facts.asks is None:
        return
    yield from _scope_findings(seen, server.auth, facts)
    yield from _resource_findings(seen, server, facts)
    yield from _issuer_findings(seen, server.auth, facts)


def _scope_findings(seen: Examined, settings: OAuth, facts: SignInProbe) -> Iterator[Finding]:
    login = seen.auth.login if seen.auth is not None else None
    if login is None or not login.signed_in or not login.scopes:
        return
    wanted = dict.fromkeys((*settings.scopes, *facts.scopes))
    missing = [scope for scope in wanted if scope not in login.scopes]
    if missing:
        fix = f"plait auth login {seen.name} --scope {shlex.quote(' '.join(missing))}"
        if login.grant == "client_credentials":
            fix = "have them granted to the client"
        yield seen.finding("warn", "scopes_missing", f"the login lacks {' '.join(missing)}", fix)


def _resource_findings(
    seen: Examined, server: RemoteOptions, facts: SignInProbe
) -> Iterator[Finding]:
    from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url

    if facts.resource is None:
        return
    here = resource_url_from_server_url(server.url)
    if not check_resource_allowed(requested_resource=here, configured_resource=facts.resource):
        text = f"it calls itself {public_url(facts.resource)}, so no login fits this address"
        fix = f'use that address as "url", or correct the server ({public_url(server.url)})'
        yield seen.finding("error", "resource_mismatch", text, fix)


def _issuer_findings(seen: Examined, settings: OAuth, facts: SignInProbe) -> Iterator[Finding]:
    from mcp.client.auth.utils import issuers_match

    login = seen.auth.login if seen.auth is not None else None
    signed_in = login is not None and login.signed_in
    if facts.failure is not None:
        level: Level = "warn" if signed_in else "error"
        fix = "is the authorization server running? logins cannot be made or renewed without it"
        yield seen.finding(level, "authorization_server", facts.failure, fix)
    named = facts.authorization_servers or ((facts.issuer,) if facts.issuer else ())
    if settings.issuer and named and not any(issuers_match(settings.issuer, one) for one in named):
        others = ", ".join(map(public_url, named))
        text = f"names {others}, but issuer is set to {public_url(settings.issuer)}"
        yield seen.finding("error", "issuer_mismatch", text, 'correct "issuer", or leave it out')
    if facts.asked and facts.issuer and not issuers_match(facts.asked, facts.issuer):
        asked, issuer = public_url(facts.asked), public_url(facts.issuer)
        text = f"the authorization server {asked} calls itself {issuer}"
        fix = "one of the two is set up wrongly; logins there are refused"
        yield seen.finding("error", "issuer_mismatch", text, fix)
    granted_by = login.issuer if login is not None else None
    if granted_by and named and not any(issuers_match(granted_by, one) for one in named):
        text = f"the login is from {public_url(granted_by)}, which the server no longer names"
        yield seen.finding("warn", "login_of_another", text, f"plait auth login {seen.name}")
    if facts.issuer is not None and not facts.pkce and settings.grant == "authorization_code":
        text = "the authorization server does not say that it supports PKCE with S256"
        yield seen.finding("warn", "no_pkce", text, "ask its operators: MCP demands it")


def _exposure_findings(
    seen: Examined, server: RemoteOptions, plain: tuple[str, ...]
) -> Iterator[Finding]:
    """Warn about credentials that others can read, on the way or in the file."""
    for setting in plain:
        variable = f"{seen.name}_TOKEN".upper().replace("-", "_")
        fix = f"write ${{{variable}}} in its place, and set that variable"
        text = f"{setting} is written into the configuration file"
        yield seen.finding("warn", "plain_secret", text, fix)
    addresses = [server.url]
    if isinstance(server.auth, OAuth) and server.auth.issuer:
        addresses.append(server.auth.issuer)
    if server.auth is None and not server.headers:
        return
    for address in addresses:
        if not is_private(address):
            text = f"credentials are sent in the open to {public_url(address)}"
            yield seen.finding("warn", "plain_http", text, "use https")


def _with(login: LoginStatus) -> str:
    return f" with {' '.join(login.scopes)}" if login.scopes else ""


def _finding(
    login: LoginStatus, level: Level, code: str, message: str, fix: str | None = None
) -> Finding:
    return Finding(server=login.server, level=level, code=code, message=message, fix=fix)
