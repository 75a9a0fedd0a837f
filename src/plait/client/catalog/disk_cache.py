"""Lists of tools on disk, so that a server need not be started to know what it offers.

What is stored is only used to show and to find tools: before a call, the server itself is asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NotRequired, assert_never

import mcp_types as types
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from plait._support.encodings import encoded_forms
from plait._support.redact import Redactor
from plait._support.threads import in_thread
from plait._version import __version__
from plait.client.config.secrets import secret_values
from plait.client.config.servers import (
    HttpServer,
    InProcessServer,
    ServerConfig,
    SseServer,
    StdioServer,
    WebSocketServer,
    transport_of,
)
from plait.client.config.urls import public_url
from plait.client.connections.operations import ToolList

logger = logging.getLogger("plait.client.catalog")

_USUAL_SECONDS: Final = 7 * 24 * 3600.0
"""How long a list is used where the server does not say."""

_OTHERS_MAY_WRITE: Final = 0o022


class _Document(TypedDict):
    plait: str
    saved_at: float
    ttl_seconds: NotRequired[float | None]
    public: bool
    identity: NotRequired[dict[str, str] | None]
    notes: list[str]
    tools: list[types.Tool]


_DOCUMENT: Final = TypeAdapter(_Document)


@dataclass(frozen=True, slots=True)
class StoredList:
    """What a server listed, and who it said it was."""

    listed: ToolList
    identity: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()
    """What had to be repaired in it."""


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder for what can be made again: `$PLAIT_CACHE_DIR`, or the user's cache."""
    known = os.environ if environ is None else environ
    if named := known.get("PLAIT_CACHE_DIR"):
        return Path(named).expanduser()
    base = known.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "plait"


class ListCache:
    """Keeps each server's list in a file of its own; failures cost time, and nothing else."""

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
        """Return what a server listed, if that is not too old; `ttl_seconds` is the user's word."""
        return await in_thread(self._load, name, server, ttl_seconds)

    async def save(self, name: str, server: ServerConfig, stored: StoredList) -> None:
        """Keep what a server listed, unless a secret of its configuration stands in it."""
        await in_thread(self._save, name, server, stored)

    async def drop(self, name: str, server: ServerConfig) -> None:
        """Forget what a server listed."""
        await in_thread(self._drop, name, server)

    def path_of(self, name: str, server: ServerConfig) -> Path:
        """Return the file for a server; it is another one when the server's program changes."""
        text = json.dumps(_fingerprint(name, server), sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def _load(self, name: str, server: ServerConfig, own: float | None) -> StoredList | None:
        path = self.path_of(name, server)
        try:
            with path.open("rb") as file:
                if os.name == "posix" and not _is_ours(os.fstat(file.fileno())):
                    logger.warning("%s can be written by others, and is not used", path)
                    return None
                kept = _DOCUMENT.validate_json(file.read())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            logger.debug("%s cannot be used: %s", path, type(error).__name__)
            return None
        hint = kept.get("ttl_seconds")
        longest = own if own is not None else hint if hint is not None else _USUAL_SECONDS
        age = self._now() - kept["saved_at"]
        if kept["plait"] != __version__ or not 0 <= age < longest:
            return None
        listed = ToolList(tuple(kept["tools"]), hint, kept["public"])
        return StoredList(listed, kept.get("identity"), tuple(kept["notes"]))

    def _save(self, name: str, server: ServerConfig, stored: StoredList) -> None:
        document = _Document(
            plait=__version__,
            saved_at=self._now(),
            ttl_seconds=stored.listed.ttl_seconds,
            public=stored.listed.public,
            identity=None if stored.identity is None else dict(stored.identity),
            notes=list(stored.notes),
            tools=list(stored.listed.tools),
        )
        try:
            text = _DOCUMENT.dump_json(document, by_alias=True, exclude_none=True).decode()
            if _mentions(text, secret_values(server)):
                logger.debug("the list of %s holds a secret, and is not stored", name)
                self._drop(name, server)
                return
            _replace(self.path_of(name, server), text)
        except (OSError, ValueError) as error:
            logger.debug("the list of %s cannot be stored: %s", name, error)

    def _drop(self, name: str, server: ServerConfig) -> None:
        with contextlib.suppress(OSError):
            self.path_of(name, server).unlink(missing_ok=True)


def _fingerprint(name: str, server: ServerConfig) -> dict[str, Any]:
    """Describe a server without its secrets; programs that change make another server of it."""
    redact = Redactor(secret_values(server))
    told: dict[str, Any] = {"name": name, "transport": transport_of(server)}
    match server:
        case StdioServer():
            words = [server.command, *server.args]
            told["words"] = [redact(word) for word in words]
            told["folder"] = server.cwd or str(Path.cwd())
            told["env"] = {key: redact(text) for key, text in sorted(server.fixed_env.items())}
            told["files"] = list(_files(words, server.cwd))
        case HttpServer() | SseServer() | WebSocketServer():
            told["url"] = public_url(server.url)
            if not callable(server.headers):
                told["headers"] = sorted(key.lower() for key in server.headers)
        case InProcessServer():
            pass
        case _:
            assert_never(server)
    return told


def _files(words: Iterable[str], folder: str | None) -> Iterable[tuple[str, int, int]]:
    """Yield when the program, and each file among its arguments, was changed."""
    program, *arguments = words
    found = shutil.which(program)
    for path in ([found] if found else []) + arguments:
        with contextlib.suppress(OSError, ValueError):
            place = Path(folder or ".") / path
            if place.is_file():
                facts = place.stat()
                yield path, facts.st_mtime_ns, facts.st_size


def _mentions(text: str, secrets: Iterable[str]) -> bool:
    return any(
        form in text for secret in secrets for form in {secret, *encoded_forms(secret)} if form
    )


def _is_ours(facts: os.stat_result) -> bool:
    return facts.st_uid == os.getuid() and not facts.st_mode & _OTHERS_MAY_WRITE


def _replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".new")
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
