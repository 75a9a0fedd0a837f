"""Tool lists on disk, so that tools are known without starting their server.

They are used only to show and to search tools; before a call, the server lists them itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from plait._support.files import write_atomically
from plait._support.redact import Redactor, encoded_forms
from plait._support.sanitize import is_clean_body
from plait._support.threads import in_thread
from plait._version import __version__
from plait.client.config.secrets import secret_values
from plait.client.config.servers import RemoteOptions, ServerConfig, StdioServer
from plait.client.config.urls import public_url
from plait.client.connections.operations import ToolList
from plait.client.protocol.tool_rows import checked_row, may_mirror, whole_row

logger = logging.getLogger("plait.client.catalog")

_DEFAULT_TTL_SECONDS: Final = 7 * 24 * 3600.0
"""The TTL of a list if the server declares none."""
_OTHERS_MAY_WRITE: Final = 0o022


@dataclass(frozen=True, slots=True)
class StoredList:
    """The tools that a server listed, and its identity."""

    listed: ToolList
    identity: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()
    """What had to be repaired in it."""


@dataclass(frozen=True, slots=True)
class _Document:
    plait: str
    saved_at: float
    stored: StoredList


@cache
def _document() -> TypeAdapter[_Document]:
    return TypeAdapter(_Document)  # most clients need none


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the cache folder: `$PLAIT_CACHE_DIR`, or the user's cache."""
    known = os.environ if environ is None else environ
    if named := known.get("PLAIT_CACHE_DIR"):
        return Path(named).expanduser()
    return Path(known.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plait"


class ListCache:
    """Stores each server's list in a file; failures are logged, not raised."""

    def __init__(self, folder: Path | None = None, *, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._now = now

    @property
    def folder(self) -> Path:
        """Where the lists are."""
        if self._folder is None:
            self._folder = cache_folder() / "tools"
        return self._folder

    async def load(
        self, name: str, server: ServerConfig, *, ttl_seconds: float | None = None
    ) -> StoredList | None:
        """Return a stored list that is not too old; `ttl_seconds` overrides the server's TTL."""
        return await in_thread(self._load, name, server, ttl_seconds)

    async def save(self, name: str, server: ServerConfig, stored: StoredList) -> None:
        """Store a list, unless it contains a secret of the server's configuration."""
        await in_thread(self._save, name, server, stored)

    async def drop(self, name: str, server: ServerConfig) -> None:
        """Delete the list of a server."""
        await in_thread(self._drop, name, server)

    def path_of(self, name: str, server: ServerConfig) -> Path:
        """Return the file of a server; it changes when the server's program changes."""
        text = json.dumps(_fingerprint(name, server), sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def _load(
        self, name: str, server: ServerConfig, ttl_seconds: float | None
    ) -> StoredList | None:
        path = self.path_of(name, server)
        try:
            with path.open("rb") as file:
                facts = os.fstat(file.fileno())
                others_write = facts.st_mode & _OTHERS_MAY_WRITE
                if os.name == "posix" and (others_write or facts.st_uid != os.getuid()):
                    logger.warning("%s is writable by others, and is not used", path)
                    return None
                body = file.read()
            document = _document().validate_json(body)
            stored = document.stored
            # Tools are checked like those that a server sends.
            tools = tuple(map(checked_row, stored.listed.tools))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            logger.debug("%s cannot be used: %s", path, type(error).__name__)
            return None
        ttls = (ttl_seconds, stored.listed.ttl_seconds, _DEFAULT_TTL_SECONDS)
        max_age = next(ttl for ttl in ttls if ttl is not None)
        is_fresh = 0 <= self._now() - document.saved_at < max_age
        if not is_fresh or document.plait != __version__:
            return None
        clean, mirrors = is_clean_body(body), may_mirror(body)
        return replace(
            stored, listed=replace(stored.listed, tools=tools, clean=clean, may_mirror=mirrors)
        )

    def _save(self, name: str, server: ServerConfig, stored: StoredList) -> None:
        listed = replace(stored.listed, tools=tuple(map(whole_row, stored.listed.tools)))
        document = _Document(__version__, self._now(), replace(stored, listed=listed))
        try:
            text = _document().dump_json(document, by_alias=True, exclude_none=True).decode()
            secrets = secret_values(server)
            if any(form in text for one in secrets for form in (one, *encoded_forms(one)) if form):
                logger.debug("the list of %s holds a secret, and is not stored", name)
                self._drop(name, server)
                return
            path = self.path_of(name, server)
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, text, mode=0o600)
        except (OSError, ValueError) as error:
            logger.debug("the list of %s cannot be stored: %s", name, error)

    def _drop(self, name: str, server: ServerConfig) -> None:
        with contextlib.suppress(OSError):
            self.path_of(name, server).unlink(missing_ok=True)


def _fingerprint(name: str, server: ServerConfig) -> dict[str, Any]:
    """Describe a server without its secrets, including the versions of its program files."""
    redact = Redactor(secret_values(server))
    details: dict[str, Any] = {"name": name, "transport": server.transport}
    if isinstance(server, RemoteOptions):
        details["url"] = public_url(server.url)
        if not callable(server.headers):
            details["headers"] = sorted(key.lower() for key in server.headers)
    if not isinstance(server, StdioServer):
        return details
    details["words"] = [redact(word) for word in (server.command, *server.args)]
    details["folder"] = server.cwd or str(Path.cwd())
    details["env"] = {key: redact(text) for key, text in sorted(server.fixed_env.items())}
    details["files"] = files = list[tuple[str, int, int]]()
    # The program, and files among its arguments: another version may have other tools.
    for path in (shutil.which(server.command), *server.args):
        with contextlib.suppress(OSError, ValueError):
            place = Path(server.cwd or ".") / (path or "")
            if path and place.is_file():
                facts = place.stat()
                files.append((path, facts.st_mtime_ns, facts.st_size))
    return details
