"""Stored logins, and the places that keep them: files, the system's keyring, memory."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import math
import os
import random
import threading
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, astuple, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, cast, runtime_checkable

from pydantic import TypeAdapter

from plait._support.files import try_lock, write_atomically
from plait._support.threads import in_thread
from plait.errors import ConfigError, ConnectError

logger = logging.getLogger("plait.client.transports.auth")

_AHEAD_SECONDS: Final = 60.0
"""Tokens are renewed this long before they expire, so that a call under way can finish."""
_AHEAD_SHARE: Final = 0.25
"""A short-lived token is renewed in the last quarter of its lifetime."""
_FORMAT: Final = 1
_LOCK_SECONDS: Final = 45.0
"""Longer than any exchange with an authorization server may take."""
_PAUSE_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginKey:
    """Identifies a login; logins that differ in any field are kept apart."""

    resource: str
    """The server's address."""
    grant: str = "authorization_code"
    issuer: str = ""
    """The configured authorization server; empty while the server names it."""
    client: str = ""
    """The configured client; empty for one that registers itself."""
    user: str = ""

    @property
    def digest(self) -> str:
        """A hash of the key, as a file name."""
        return hashlib.sha256("\0".join(astuple(self)).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The tokens and metadata of one sign-in; `repr` shows no secrets."""

    key: LoginKey
    access_token: str | None = field(default=None, repr=False)
    refresh_token: str | None = field(default=None, repr=False)
    scope: str | None = None
    expires_at: float | None = None
    """When the access token ends, in seconds since 1970; `None` if unknown."""
    lifetime_seconds: float | None = None
    """How long the access token was good for when it was new."""
    client: Mapping[str, Any] | None = field(default=None, repr=False)
    """The registered client, as OAuth JSON."""
    authorization_server: Mapping[str, Any] | None = field(default=None, repr=False)
    """The authorization server's metadata, so that renewing needs no discovery."""
    protected_resource: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def issuer(self) -> str | None:
        """The authorization server that granted it."""
        issuer = (self.authorization_server or {}).get("issuer")
        return issuer if isinstance(issuer, str) else None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must never be shown."""
        client_secret = (self.client or {}).get("client_secret")
        values = (self.access_token, self.refresh_token, client_secret)
        return tuple(value for value in values if isinstance(value, str))

    def is_due(self, now: float) -> bool:
        """Return whether there is an access token, and it has expired or is about to."""
        if self.access_token is None or self.expires_at is None:
            return False
        lifetime = math.inf if self.lifetime_seconds is None else self.lifetime_seconds
        return now >= self.expires_at - min(_AHEAD_SECONDS, _AHEAD_SHARE * lifetime)


@runtime_checkable
class TokenStore(Protocol):
    """Stores logins; used from several loops, threads and processes at once."""

    async def load(self, key: LoginKey) -> Login | None:
        """Return the login of this key, if there is one."""
        ...

    async def save(self, login: Login) -> None:
        """Save a login; if that fails, raise a `PlaitError`, and keep the previous one."""
        ...

    async def forget(self, key: LoginKey) -> None:
        """Delete the login of this key, if there is one."""
        ...

    def locked(self, key: LoginKey) -> AbstractAsyncContextManager[None]:
        """Keep others from renewing the same login while the context is open."""
        ...


def text_from_login(login: Login) -> str:
    """Write a login as JSON."""
    return json.dumps({"format": _FORMAT, **asdict(login)}, indent=1)


def login_from_text(text: str, key: LoginKey) -> Login:
    """Read the login of a key, or raise `ValueError` if it is not one of this key."""
    data: object = json.loads(text)
    entries = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    if entries.get("format") != _FORMAT or entries.get("key") != asdict(key):
        raise ValueError("a login of another kind, or for something else")
    return _LOGIN.validate_json(text, strict=True)


_LOGIN = TypeAdapter(Login)


def token_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder for logins: `$PLAIT_TOKEN_DIR`, or one in the user's data folder."""
    environ = os.environ if environ is None else environ
    if folder := environ.get("PLAIT_TOKEN_DIR"):
        return Path(folder).expanduser()
    data = environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "plait" / "tokens"


class FileTokenStore:
    """Keeps each login in its own file, which is replaced atomically."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = token_folder() if folder is None else Path(folder)

    def __repr__(self) -> str:
        return f"FileTokenStore({str(self.folder)!r})"

    async def load(self, key: LoginKey) -> Login | None:
        """Return the login of this key; a file that cannot be read as a login is renamed."""
        return await in_thread(self._load, key)

    async def save(self, login: Login) -> None:
        """Save a login; if it cannot be written, the file before is still there."""
        try:
            await in_thread(self._save, login)
        except OSError as error:
            reason = f"the login cannot be saved in {self.folder}: {error.strerror}"
            raise ConfigError(reason) from error

    async def forget(self, key: LoginKey) -> None:
        """Delete a login."""
        await in_thread(self.path_of(key).unlink, missing_ok=True)

    def locked(self, key: LoginKey) -> AbstractAsyncContextManager[None]:
        """Keep other processes from renewing the login meanwhile."""
        return _lock_file(self.folder / f"{key.digest}.lock")

    def path_of(self, key: LoginKey) -> Path:
        """Return the file of a login."""
        return self.folder / f"{key.digest}.json"

    def _load(self, key: LoginKey) -> Login | None:
        path = self.path_of(key)
        try:
            return login_from_text(path.read_text(encoding="utf-8"), key)
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            aside = path.with_suffix(".broken")
            logger.warning("%s is no login; it is now %s (%s)", path, aside, type(error).__name__)
            with contextlib.suppress(OSError):
                path.replace(aside)
            return None
        except OSError as error:
            raise ConfigError(f"the login in {path} cannot be read: {error.strerror}") from error

    def _save(self, login: Login) -> None:
        _make_private_folder(self.folder)
        write_atomically(self.path_of(login.key), text_from_login(login), mode=0o600)


class KeyringTokenStore:
    """Keeps logins in the system's keyring; needs `plait[keyring]`."""

    def __init__(self, service: str = "plait") -> None:
        self.service = service

    def __repr__(self) -> str:
        return f"KeyringTokenStore({self.service!r})"

    async def load(self, key: LoginKey) -> Login | None:
        """Return the login of this key; an unreadable entry counts as none."""
        text = await self._do("get_password", key.digest)
        if not isinstance(text, str):
            return None
        try:
            return login_from_text(text, key)
        except (ValueError, RecursionError):
            logger.warning("the entry %s of the keyring is no login", key.digest)
            return None

    async def save(self, login: Login) -> None:
        """Save a login."""
        await self._do("set_password", login.key.digest, text_from_login(login))

    async def forget(self, key: LoginKey) -> None:
        """Delete a login."""
        if await self._do("get_password", key.digest) is not None:
            await self._do("delete_password", key.digest)

    def locked(self, key: LoginKey) -> AbstractAsyncContextManager[None]:
        """Keep other processes from renewing the login; a file, since keyrings have no locks."""
        return _lock_file(token_folder() / f"{key.digest}.lock")

    async def _do(self, action: str, *values: str) -> object:
        return await in_thread(_call_keyring, action, self.service, *values)


def _call_keyring(action: str, *values: str) -> object:
    """Call the keyring package, or raise `ConfigError` if there is none, or it refuses."""
    try:
        import keyring  # noqa: PLC0415  # an optional dependency
        from keyring.errors import KeyringError  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "the keyring package is missing: pip install 'plait[keyring]', or keep logins in files "
            '("store": "file")'
        ) from error
    module: Any = keyring
    try:
        return getattr(module, action)(*values)
    except KeyringError as error:
        # The text only if nothing is saved: some backends quote the value.
        text = " ".join(str(error).split())[:100] if action == "get_password" else ""
        reason = text or type(error).__name__
        raise ConfigError(f"the keyring of this system cannot be used: {reason}") from error


class MemoryTokenStore:
    """Keeps logins until the process ends, for all its loops and threads."""

    def __init__(self) -> None:
        self._logins: dict[LoginKey, Login] = {}
        self._locks: defaultdict[LoginKey, threading.Lock] = defaultdict(threading.Lock)

    async def load(self, key: LoginKey) -> Login | None:
        """Return the login of this key, if there is one."""
        return self._logins.get(key)

    async def save(self, login: Login) -> None:
        """Save a login."""
        self._logins[login.key] = login

    async def forget(self, key: LoginKey) -> None:
        """Delete a login."""
        self._logins.pop(key, None)

    @asynccontextmanager
    async def locked(self, key: LoginKey) -> AsyncGenerator[None]:
        """Keep other loops from renewing the login meanwhile."""
        lock = self._locks[key]
        acquire = partial(lock.acquire, blocking=False)
        await _wait_for_lock(acquire, "another thread renews the login")
        try:
            yield
        finally:
            lock.release()


_MEMORY = MemoryTokenStore()
"""One for the process, so that the sessions of a server share their login."""


def store_of(store: object) -> TokenStore:
    """Return the store with this name, or the object if it is one, or raise `ConfigError`."""
    match store:
        case "file" | None:
            return FileTokenStore()
        case "keyring":
            return KeyringTokenStore()
        case "memory":
            return _MEMORY
        case TokenStore():
            return store
        case _:
            kind = type(store).__name__
            raise ConfigError(f'oauth: "store" is a {kind}; give "file", "keyring" or a TokenStore')


async def _wait_for_lock(acquire: Callable[[], bool], reason: str) -> None:
    """Poll until `acquire`, which must not block, is true, or raise `ConnectError`."""
    try:
        async with asyncio.timeout(_LOCK_SECONDS):
            while not acquire():  # noqa: ASYNC110  # other processes set no events
                await asyncio.sleep(_PAUSE_SECONDS * (0.5 + random.random()))
    except TimeoutError:
        raise ConnectError(f"{reason}, and has not finished in {_LOCK_SECONDS:g} s") from None


@asynccontextmanager
async def _lock_file(path: Path) -> AsyncGenerator[None]:
    """Hold the lock on a file; the system releases it when a process dies."""
    try:
        descriptor = await in_thread(_open_lock, path)
    except OSError as error:
        raise ConfigError(f"logins cannot be kept in {path.parent}: {error.strerror}") from error
    try:
        # Each descriptor has its own lock, so threads of this process wait for each other too.
        await _wait_for_lock(partial(try_lock, descriptor), "another process renews the login")
        yield
    finally:
        os.close(descriptor)


def _make_private_folder(path: Path) -> None:
    """Create a folder that only its owner can read."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.stat().st_mode & 0o077:
        path.chmod(0o700)


def _open_lock(path: Path) -> int:
    _make_private_folder(path.parent)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
