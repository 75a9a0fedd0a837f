"""Telling from the name of a setting whether its value is a secret."""

from __future__ import annotations

import re

_WORDS = frozenset(
    {"key", "keys", "auth", "authorization", "authentication", "bearer", "cookie", "jwt"}
    | {"pass", "passphrase", "pat", "pin", "private", "pwd", "sig", "signature"}
)

_INSIDE = re.compile(r"token|secret|passw|api_?key|credential", re.IGNORECASE)
"""Telling even within a longer word, as in `GITHUBTOKEN`."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def looks_secret(name: str) -> bool:
    """Say whether a variable, header, flag or query parameter of this name holds a secret."""
    if _INSIDE.search(name.replace("-", "_")):
        return True
    return any(word.lower() in _WORDS for word in _WORD.findall(name))
