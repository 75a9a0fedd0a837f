"""Stores logins in files that only their owner can read."""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from plait._support.threads import in_thread
from plait.client.transports.auth.stores.locks import lock_file, private_folder
from plait.client.transports.auth.stores.login import (
    Login,
    LoginKey,
    login_from_text,
    text_from_login,
)
from plait.errors import ConfigError

logger = logging.getLogger("plait.client.transports.auth")


def token_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder for logins: `$PLAIT_TOKEN_DIR`, or one in the user's data folder."""
    known = os.environ if environ is None else environ
    if named := known.get("PLAIT_TOKEN_DIR"):
        return Path(named).expanduser()
    data = known.get("XDG_DATA_HOME")
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
        """Save a login.

        Raises:
            ConfigError: It cannot be written; the file before is still there.
        """
        try:
            await in_thread(self._save, login)
        except OSError as error:
            raise ConfigError(
                f"the login cannot be saved in {self.folder}: {error.strerror}"
            ) from error

    async def forget(self, key: LoginKey) -> None:
        """Delete a login."""
        await in_thread(self.path_of(key).unlink, missing_ok=True)

    def locked(self, key: LoginKey) -> AbstractAsyncContextManager[None]:
        """Keep other processes from renewing the login meanwhile."""
        return lock_file(self.folder / f"{key.digest}.lock")

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
        private_folder(self.folder)
        descriptor, name = tempfile.mkstemp(dir=self.folder, prefix=".", suffix=".new")
        draft = Path(name)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text_from_login(login))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path_of(login.key))
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
