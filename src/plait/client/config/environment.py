"""The environment that a server program is started with."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from plait._support.redact import looks_secret
from plait.client.config.secrets import TOKEN
from plait.client.config.urls import secrets_in_url

if TYPE_CHECKING:
    from plait.client.config.servers import StdioServer

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

_OTHER_SECRETS: Final = re.compile(r"[_:](?:LOGIN|USERNAME|USER)$")
"""Names of credentials that `looks_secret` does not know."""
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")


def child_environment(
    server: StdioServer, environ: Mapping[str, str], *, windows: bool = sys.platform == "win32"
) -> dict[str, str]:
    """Build the environment of a server program: few variables, plus its settings.

    Secrets of the parent are passed on only by `inherit_env` (names or globs, or `True` for all)
    or `env`.
    """
    inherited_names = ("*",) if server.inherit_env is True else server.inherit_env or ()
    exact = (*(_WINDOWS_NAMES if windows else _POSIX_NAMES), *inherited_names)
    inherited = {
        name: value
        for name, value in environ.items()
        # An exported shell function could run code in the child.
        if not value.startswith("()")
        and (_is_usual(name, value) or _matches(name, exact, any_case=windows))
    }
    return {**inherited, **server.fixed_env}


def _is_usual(name: str, value: str) -> bool:
    upper = name.upper()
    if _matches(upper, _USUAL_NAMES):
        return True
    return _matches(upper, _USUAL_GLOBS) and not (
        looks_secret(name) or _OTHER_SECRETS.search(upper) or _holds_secret(value)
    )


def _holds_secret(value: str) -> bool:
    """Return whether a value is a well-known kind of token, or has a URL with credentials in it."""
    if TOKEN.search(value):
        return True
    # Paths of indexes have ids in them that look like keys.
    return any(secrets_in_url(_without_path(url)) for url in _URL.findall(value))


def _without_path(url: str) -> str:
    try:
        return urlsplit(url)._replace(path="").geturl()
    except ValueError:
        return url


def _matches(name: str, patterns: Iterable[str], *, any_case: bool = False) -> bool:
    if any_case:
        return _matches(name.upper(), [pattern.upper() for pattern in patterns])
    return any(fnmatchcase(name, pattern) for pattern in patterns)
