"""Checks of `plait doctor` for logins and credentials of servers."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from plait._support.redact import looks_secret
from plait._support.threads import import_once
from plait.cli.doctor.findings import Examined, Finding, Level
from plait.client.config.oauth import OAuth
from plait.client.config.servers import HttpServer, RemoteOptions, ServerConfig, SseServer
from plait.client.config.urls import is_private, public_url
from plait.errors import AuthRequiredError, ConfigError, PlaitError

if TYPE_CHECKING:
    from plait.client.transports.auth.login import LoginStatus, SignInProbe

_SHORTEST = 6
"""Shorter values occur in files for other reasons."""

_LITTLE_SECONDS = 3600.0
"""Warn this long before the end of a login that cannot be renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthSeen:
    """The login of a server, without secrets."""

    at: float
    """The time of the examination, in seconds since 1970."""
    login: LoginStatus | None = None
    facts: SignInProbe | None = None
    """The metadata of the server and its authorization server; `None` if not queried."""
    store_failure: str | None = None
    open_file: str | None = None
    """The file of the login, if other users can read it."""
    plain_secrets: tuple[str, ...] = ()
    """Settings with a secret in the configuration file."""


async def look_at_auth(
    name: str, server: ServerConfig, error: PlaitError | None, written: str
) -> AuthSeen | None:
    """Examine the login of a server and, if it needs one, its authorization server.

    `error` is the connection error, and `written` the text of the configuration.
    """
    import_once("plait.client.transports.auth.login")  # connections are imported in threads
    from plait.client.transports.auth.login import login_file, login_status, probe_sign_in

    if not isinstance(server, RemoteOptions):
        return None
    login, failure, open_file = None, None, None
    try:
        login = await login_status(name, server)
        open_file = _open_to_others(login_file(server))
    except ConfigError as unreadable:
        failure = unreadable.message
    facts = None
    needs_login = isinstance(server.auth, OAuth) or isinstance(error, AuthRequiredError)
    if needs_login and isinstance(server, HttpServer | SseServer):
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
    """Return the settings of a server whose secret is in the text of the configuration."""
    settings: dict[str, str | None] = {}
    for name, value in () if callable(server.headers) else server.headers.items():
        if looks_secret(name):
            settings[f"headers.{name}"] = value
    if isinstance(server.auth, OAuth):
        settings["auth.client_secret"] = server.auth.client_secret
        settings["auth.private_key"] = server.auth.private_key
    return tuple(name for name, value in settings.items() if value and _contains(value, written))


def _contains(value: str, written: str) -> bool:
    # "Bearer abc": search for the key; a multi-line key is escaped in JSON: search for one line.
    longest = max(value.split(), key=len, default="")
    return len(longest) >= _SHORTEST and longest in written


def _open_to_others(path: Path | None) -> str | None:
    if path is None or os.name == "nt" or not path.exists():
        return None
    return str(path) if path.stat().st_mode & 0o077 else None


def check_auth(examined: Examined) -> Iterator[Finding]:
    """Check the login and the credentials of a server."""
    auth, server = examined.auth, examined.config
    if auth is None or not isinstance(server, RemoteOptions):
        return
    error = examined.error or examined.status.error
    refused = error is not None and error.kind == "auth"
    if auth.store_failure is not None:
        fix = "repair or remove it, and sign in again"
        yield examined.finding("error", "login_unreadable", auth.store_failure, fix)
    if auth.login is not None:
        # A connection error reports the same in more detail.
        findings = login_findings(auth.login, auth.at)
        yield from (each for each in findings if not (refused and each.level == "error"))
    if auth.open_file is not None:
        fix = f"chmod 600 {shlex.quote(auth.open_file)}"
        yield examined.finding("warn", "login_file_open", "other users can read the login", fix)
    if auth.facts is not None:
        yield from _sign_in_findings(examined, server, auth.facts)
    yield from _exposure_findings(examined, server, auth.plain_secrets)


def login_findings(login: LoginStatus, now: float) -> Iterator[Finding]:
    """Check the state of a login."""
    fix = f"plait auth login {login.server}"
    ends_at = None if login.renewable else login.expires_at
    if login.grant == "client_credentials":
        return
    if not login.signed_in:
        yield Finding(login.server, "error", "not_signed_in", "not signed in", fix)
    elif ends_at is not None and ends_at <= now:
        yield Finding(login.server, "error", "login_over", "the login has expired", fix)
    elif ends_at is not None and ends_at - now < _LITTLE_SECONDS:
        minutes = int((ends_at - now) // 60)
        text = f"the login expires in {minutes} min, and cannot be renewed automatically"
        yield Finding(login.server, "warn", "login_ends", text, fix)
    else:
        scopes = f" with {' '.join(login.scopes)}" if login.scopes else ""
        yield Finding(login.server, "ok", "signed_in", f"signed in{scopes}")


def _sign_in_findings(
    examined: Examined, server: RemoteOptions, facts: SignInProbe
) -> Iterator[Finding]:
    """Compare the OAuth metadata with the configuration and the login."""
    if not isinstance(server.auth, OAuth):
        if facts.issuer is not None:
            text = f"supports OAuth sign-in at {public_url(facts.issuer)}"
            fix = f'set "auth": "oauth", then: plait auth login {examined.name}'
            yield examined.finding("warn", "oauth_offered", text, fix)
        return
    if facts.asks is False:
        fix = 'the setting "auth" can be removed'
        yield examined.finding("ok", "no_login_needed", "needs no login", fix)
    elif facts.asks:
        yield from _scope_findings(examined, server.auth, facts)
        yield from _resource_findings(examined, server, facts)
        yield from _issuer_findings(examined, server.auth, facts)


def _scope_findings(examined: Examined, settings: OAuth, facts: SignInProbe) -> Iterator[Finding]:
    login = examined.auth.login if examined.auth is not None else None
    if login is None or not login.signed_in or not login.scopes:
        return
    scopes = dict.fromkeys((*settings.scopes, *facts.scopes))
    missing = [scope for scope in scopes if scope not in login.scopes]
    if missing:
        fix = f"plait auth login {examined.name} --scope {shlex.quote(' '.join(missing))}"
        if login.grant == "client_credentials":
            fix = "grant them to the client"
        text = f"the login lacks {' '.join(missing)}"
        yield examined.finding("warn", "scopes_missing", text, fix)


def _resource_findings(
    examined: Examined, server: RemoteOptions, facts: SignInProbe
) -> Iterator[Finding]:
    from plait.client.transports.auth.discovery import covers

    if facts.resource is not None and not covers(facts.resource, server.url):
        text = f"its resource is {public_url(facts.resource)}, so no login is valid for this URL"
        fix = f'use that as "url", or correct the server ({public_url(server.url)})'
        yield examined.finding("error", "resource_mismatch", text, fix)


def _issuer_findings(examined: Examined, settings: OAuth, facts: SignInProbe) -> Iterator[Finding]:
    from plait.client.transports.auth.discovery import is_same_issuer

    login = examined.auth.login if examined.auth is not None else None
    signed_in = login is not None and login.signed_in
    if facts.failure is not None:
        level: Level = "warn" if signed_in else "error"
        fix = "check the authorization server: it is needed to sign in and to renew logins"
        yield examined.finding(level, "authorization_server", facts.failure, fix)
    named = facts.authorization_servers or ((facts.issuer,) if facts.issuer else ())
    if settings.issuer and named and not any(is_same_issuer(settings.issuer, one) for one in named):
        others = ", ".join(map(public_url, named))
        text = f"its issuer is {others}, but issuer is set to {public_url(settings.issuer)}"
        yield examined.finding("error", "issuer_mismatch", text, 'correct "issuer", or remove it')
    server, issuer = facts.authorization_server, facts.issuer
    if server and issuer and not is_same_issuer(server, issuer):
        text = f"the authorization server {public_url(server)} has the issuer {public_url(issuer)}"
        fix = "correct its configuration; logins with another issuer are refused"
        yield examined.finding("error", "issuer_mismatch", text, fix)
    granted_by = login.issuer if login is not None else None
    if granted_by and named and not any(is_same_issuer(granted_by, one) for one in named):
        text = f"the login is from {public_url(granted_by)}, which the server no longer uses"
        fix = f"plait auth login {examined.name}"
        yield examined.finding("warn", "login_of_another", text, fix)
    if facts.issuer is not None and not facts.pkce and settings.grant == "authorization_code":
        text = "the authorization server does not declare PKCE with S256"
        yield examined.finding("warn", "no_pkce", text, "contact its operators: MCP requires it")


def _exposure_findings(
    examined: Examined, server: RemoteOptions, plain: tuple[str, ...]
) -> Iterator[Finding]:
    """Warn about credentials in plain text, in the file or on the network."""
    for setting in plain:
        variable = f"{examined.name}_TOKEN".upper().replace("-", "_")
        fix = f"replace it with ${{{variable}}}, and set that variable"
        text = f"{setting} is in plain text in the configuration file"
        yield examined.finding("warn", "plain_secret", text, fix)
    if server.auth is None and not server.headers:
        return
    issuer = server.auth.issuer if isinstance(server.auth, OAuth) else None
    for address in (server.url, issuer):
        if address and not is_private(address):
            text = f"credentials are sent unencrypted to {public_url(address)}"
            yield examined.finding("warn", "plain_http", text, "use https")
