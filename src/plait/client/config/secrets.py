"""Secrets of a server's configuration: hidden from texts, and kept from server programs."""

from __future__ import annotations

import base64
import binascii
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final, cast
from urllib.parse import urlsplit

from plait._support.redact import looks_secret
from plait.client.config.oauth_settings import OAuth
from plait.client.config.servers import RemoteOptions, ServerConfig, StdioServer
from plait.client.config.urls import secrets_in_url

_MIN_CHARACTERS: Final = 6
"""Hiding shorter values that may not be secret would hide ordinary words."""
_MIN_SURE_CHARACTERS: Final = 4
"""The same for settings whose name looks secret."""

_PUBLIC_VARIABLE = re.compile(
    r"PATH|HOME|USER|LANG|LC_\w+|TZ|TERM|SHELL|PWD|TMPDIR|TEMP|TMP|PORT|HOST|DEBUG|NODE_ENV|"
    r"NODE_OPTIONS|LOG_LEVEL|LOGLEVEL|RUST_LOG|PYTHON\w*|\w+_(?:DIR|HOME|LEVEL|PORT|REGION)",
    re.IGNORECASE,
)

_PUBLIC_HEADER = re.compile(
    r"accept(?:-\w+)*|content-type|user-agent|cache-control|connection|host|origin|referer",
    re.IGNORECASE,
)

_PLAIN_WORD = re.compile(r"-?\d+(?:\.\d+)?|true|false|yes|no|on|off|none|null", re.IGNORECASE)
_SCHEME = re.compile(r"(bearer|basic|token|digest|apikey|negotiate)\s+(.+)", re.IGNORECASE)
_PAIR = re.compile(r"-{0,2}(?P<name>[\w.-]+)\s*[=:]\s*(?P<value>.+)", re.DOTALL)
_FLAG = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)")

_TOKEN = re.compile(
    r"(?:gh[a-z]_|github_pat_|glpat-|sk-|pk-|xox[a-z]-|AKIA|AIza|eyJ|npm_|hf_)[\w.-]{12,}"
)
"""Prefixes of keys of well-known services."""

_POSIX_NAMES: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")

_WINDOWS_NAMES: Final = (
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT"),
    *("PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
)

_USUAL_NAMES: Final = (
    *("LANG", "TMPDIR", "TEMP", "TMP"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
)
"""Needed by `npx`, `uvx` and servers behind a proxy; compared without regard to case."""

_USUAL_GLOBS: Final = ("LC_*", "NPM_CONFIG_*", "UV_*", "XDG_*")
"""The same, but for those that may hold a token or a password."""

_OTHER_SECRETS = re.compile(r"[_:](?:LOGIN|USERNAME|USER)$")
"""Names of credentials that `looks_secret` does not know."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")


def secret_values(server: ServerConfig) -> frozenset[str]:
    """Collect the strings to hide: credentials in headers, environment, arguments and URL."""
    secrets: set[str] = set(server.secrets)
    if isinstance(server, StdioServer):
        for name, value in server.fixed_env.items():
            if looks_secret(name) or not _PUBLIC_VARIABLE.fullmatch(name):
                secrets.update(_if_secret(name, value), secrets_in_url(value))
        args = [*server.command.split(), *server.args]
        for argument, following in zip(args, [*args[1:], ""], strict=True):
            secrets.update(secrets_in_argument(argument))
            flag = _FLAG.fullmatch(argument)
            if flag and looks_secret(flag["name"]) and not following.startswith("-"):
                secrets.update(_if_secret(flag["name"], following))
    elif isinstance(server, RemoteOptions):
        secrets.update(secrets_in_url(server.url), secrets_in_auth(server.auth))
        if not callable(server.headers):
            secrets.update(secrets_in_headers(server.headers))
    return frozenset(value for value in secrets if value.strip())


def secrets_in_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets in the headers of a request."""
    for name, value in headers.items():
        if not _PUBLIC_HEADER.fullmatch(name):
            yield from _if_secret(name, value)
            yield from _credentials(value)


def secrets_in_argument(argument: str) -> Iterator[str]:
    """Yield the secrets in one argument of a program, which may follow a flag."""
    yield from secrets_in_url(argument)
    yield from _TOKEN.findall(argument)
    pair = _PAIR.fullmatch(argument)
    if pair and looks_secret(pair["name"]):
        yield from _if_secret(pair["name"], pair["value"])
        yield from _credentials(pair["value"])


def secrets_in_auth(auth: object) -> Iterator[str]:
    """Yield the secrets in authentication settings; objects of libraries are not inspected."""
    match auth:
        case OAuth():
            yield from (key for key in (auth.client_secret, auth.private_key) if key)
        case str():
            yield from _if_secret("auth", auth)
        case Mapping():
            for name, value in cast("Mapping[object, object]", auth).items():
                if isinstance(value, str) and looks_secret(str(name)):
                    yield from _if_secret(str(name), value)
        case tuple() | list():
            values = cast("Iterable[object]", auth)
            yield from (value for value in values if isinstance(value, str))
        case _:
            return


def _credentials(value: str) -> Iterator[str]:
    """Yield the credentials after an authentication scheme, for Basic also decoded."""
    scheme = _SCHEME.fullmatch(value.strip())
    if scheme is None:
        return
    yield scheme[2]
    if scheme[1].lower() == "basic":
        try:
            decoded = base64.b64decode(scheme[2], validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return
        yield decoded
        yield decoded.partition(":")[2]


def _if_secret(name: str, value: str) -> Iterator[str]:
    """Yield a value that looks like a secret, judging by its name and length."""
    if not looks_secret(name):
        if len(value) >= _MIN_CHARACTERS and not _PLAIN_WORD.fullmatch(value):
            yield value
    elif len(value) >= _MIN_SURE_CHARACTERS and value.lower() not in {"true", "false"}:
        yield value


def child_environment(
    server: StdioServer, environ: Mapping[str, str], *, windows: bool = sys.platform == "win32"
) -> dict[str, str]:
    """Build the environment of a server program: few variables, plus its settings.

    Secrets of the parent are passed on only by `inherit_env` (names or globs, or `True` for all)
    or `env`.
    """
    inherited_names = ("*",) if server.inherit_env is True else server.inherit_env or ()
    exact = (*(_WINDOWS_NAMES if windows else _POSIX_NAMES), *inherited_names)
    inherited: dict[str, str] = {}
    for name, value in environ.items():
        upper = name.upper()
        is_usual = _matches(upper, _USUAL_NAMES) or (
            _matches(upper, _USUAL_GLOBS)
            and not (looks_secret(name) or _OTHER_SECRETS.search(upper) or _holds_secret(value))
        )
        # An exported shell function could run code in the child.
        if not value.startswith("()") and (is_usual or _matches(name, exact, any_case=windows)):
            inherited[name] = value
    return {**inherited, **server.fixed_env}


def _holds_secret(value: str) -> bool:
    """Return whether a value is a well-known kind of token, or has a URL with credentials in it."""
    if _TOKEN.search(value):
        return True
    urls: list[str] = _URL.findall(value)
    for url in urls:
        try:
            # Paths of indexes have ids in them that look like keys.
            bare = urlsplit(url)._replace(path="").geturl()
        except ValueError:
            continue
        if secrets_in_url(bare):
            return True
    return False


def _matches(name: str, patterns: Iterable[str], *, any_case: bool = False) -> bool:
    if any_case:
        return _matches(name.upper(), [pattern.upper() for pattern in patterns])
    return any(fnmatchcase(name, pattern) for pattern in patterns)
