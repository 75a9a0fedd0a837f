"""The tokens of clients over HTTP, as hashes in a file: a token is shown once, and never again."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from plait._support.files import write_atomically
from plait.errors import ConfigError

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_PREFIX = "plait_"


def tokens_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return the file of the tokens, in the folder of the user's configuration."""
    known = os.environ if environ is None else environ
    folder = Path(known.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return folder / "plait" / "serve-tokens.json"


def read_tokens(path: Path) -> dict[str, str]:
    """Return the hash of each client's token, by the name of the client.

    Raises:
        ConfigError: The file cannot be read, or is something else.
    """
    try:
        found = json.loads(path.read_text())
        tokens = {str(name): str(digest) for name, digest in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path} cannot be read as a file of tokens: {error}") from error
    return tokens


def add_token(path: Path, name: str) -> str:
    """Create a token for a client, and return it; the file keeps its hash.

    Raises:
        ConfigError: The name is not one, or there is a client of that name.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no name for a client: use letters, digits, ., - and _")
    tokens = read_tokens(path)
    if name in tokens:
        raise ConfigError(f"there is a token for {name!r}: remove it first")
    token = _PREFIX + secrets.token_urlsafe(32)
    _write(path, {**tokens, name: _digest(token)})
    return token


def remove_token(path: Path, name: str) -> None:
    """Remove the token of a client.

    Raises:
        ConfigError: There is none.
    """
    tokens = read_tokens(path)
    if name not in tokens:
        raise ConfigError(f"there is no token for {name!r} in {path}")
    del tokens[name]
    _write(path, tokens)


def client_of(tokens: Mapping[str, str], token: str) -> str | None:
    """Return the name of the client that a token belongs to."""
    digest = _digest(token)
    # Compared with every token, so that the time says nothing about them.
    found = [name for name, known in tokens.items() if hmac.compare_digest(known, digest)]
    return found[0] if found else None


def _digest(token: str) -> str:
    # A token has 256 bits of chance, so a slow hash would add nothing.
    return hashlib.sha256(token.encode()).hexdigest()


def _write(path: Path, tokens: Mapping[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(path, json.dumps(tokens, indent=2) + "\n", mode=0o600)
