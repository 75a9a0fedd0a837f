"""Secret strings of a server's configuration, to hide from errors, logs and traces."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

from plait._support.redact import looks_secret
from plait.client.config.oauth import OAuth
from plait.client.config.servers import RemoteOptions, ServerConfig, StdioServer
from plait.client.config.urls import secrets_in_url

_SHORTEST: Final = 6
"""Hiding shorter values that may not be secret would hide ordinary words."""
_SHORTEST_SURE: Final = 4
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

TOKEN = re.compile(
    r"(?:gh[a-z]_|github_pat_|glpat-|sk-|pk-|xox[a-z]-|AKIA|AIza|eyJ|npm_|hf_)[\w.-]{12,}"
)
"""Prefixes of keys of well-known services."""


def secret_values(server: ServerConfig) -> frozenset[str]:
    """Collect the strings to hide: credentials in headers, environment, arguments and URL."""
    secrets: set[str] = set(server.secrets)
    if isinstance(server, StdioServer):
        secrets.update(_in_environment(server.fixed_env))
        secrets.update(_in_arguments([*server.command.split(), *server.args]))
    elif isinstance(server, RemoteOptions):
        secrets.update(secrets_in_url(server.url))
        secrets.update(secrets_in_auth(server.auth))
        if not callable(server.headers):
            secrets.update(secrets_in_headers(server.headers))
    return frozenset(value for value in secrets if value.strip())


def _in_environment(env: Mapping[str, str]) -> Iterator[str]:
    for name, value in env.items():
        if _PUBLIC_VARIABLE.fullmatch(name) and not looks_secret(name):
            continue
        yield from _if_secret(name, value)
        yield from secrets_in_url(value)


def secrets_in_headers(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the secrets in the headers of a request."""
    for name, value in headers.items():
        if not _PUBLIC_HEADER.fullmatch(name):
            yield from _if_secret(name, value)
            yield from _credentials(value)


def _in_arguments(args: Sequence[str]) -> Iterator[str]:
    for argument, following in zip(args, [*args[1:], ""], strict=True):
        yield from secrets_in_argument(argument)
        flag = _FLAG.fullmatch(argument)
        if flag and looks_secret(flag["name"]) and not following.startswith("-"):
            yield from _if_secret(flag["name"], following)


def secrets_in_argument(argument: str) -> Iterator[str]:
    """Yield the secrets in one argument of a program, which may follow a flag."""
    yield from secrets_in_url(argument)
    yield from TOKEN.findall(argument)
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
    if looks_secret(name):
        if len(value) >= _SHORTEST_SURE and not re.fullmatch(r"true|false", value, re.IGNORECASE):
            yield value
    elif len(value) >= _SHORTEST and not _PLAIN_WORD.fullmatch(value):
        yield value
