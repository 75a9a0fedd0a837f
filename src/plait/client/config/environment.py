"""The environment that a server program is started with."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from plait.client.config.servers import StdioServer

_POSIX_NAMES: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")

_WINDOWS_NAMES: Final = (
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT"),
    *("PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
)

_USUAL_NAMES: Final = (
    *("LANG", "LC_*", "TMPDIR", "TEMP", "TMP", "NPM_CONFIG_*", "UV_*", "XDG_*"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
)
"""Needed by `npx`, `uvx` and servers behind a proxy; compared without regard to case."""


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
        and (_matches(name.upper(), _USUAL_NAMES) or _matches(name, exact, any_case=windows))
    }
    return {**inherited, **server.fixed_env}


def _matches(name: str, patterns: Iterable[str], *, any_case: bool = False) -> bool:
    if any_case:
        return _matches(name.upper(), [pattern.upper() for pattern in patterns])
    return any(fnmatchcase(name, pattern) for pattern in patterns)
