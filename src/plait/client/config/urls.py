"""URLs of servers: which parts may be shown, and which are secret."""

from __future__ import annotations

import re
from ipaddress import ip_address
from urllib.parse import unquote, unquote_plus, urlsplit, urlunsplit

from plait._support.redact import looks_secret

_SCHEMES = ("http", "https", "ws", "wss")
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names of this machine."""
_KEY_IN_PATH = re.compile(
    r"(?=(?:[^\d/]*\d){4})(?=[^/]*[A-Za-z])[A-Za-z0-9_=-]{24,}"
    r"|(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])(?=\D*\d)[A-Za-z0-9_-]{16,}=*"
)
"""A personal key in the path; ordinary names are shorter, or mix letters and digits less."""
_KEY_PARTS = re.compile(r"[.:~@!$*+,;]")
_LETTERS = re.compile(r"[A-Za-z]{20,}")
_CASE_CHANGE = re.compile(r"(?<=[a-z])[A-Z]|(?<=[A-Z])[a-z]")
_MIN_PARAMETER_CHARACTERS = 6
"""Hiding shorter query values would hide ordinary words of a message."""
_MIN_USER_CHARACTERS = 8
"""Some services use a key as the user name; names of people are often shorter."""


def public_url(url: str) -> str:
    """Return the URL as it may be shown: no user, no query, no fragment, no key in the path."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(not a URL)"
    path = "/".join("…" if _is_key(step) else step for step in parts.path.split("/"))
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))


def _is_key(step: str) -> bool:
    # A key may have parts, such as `bot123456:ABC…`, or the three of a JSON Web Token.
    for text in _KEY_PARTS.split(unquote(step)):
        # The words of a name that is written in camel case have more letters.
        changes_case = 5 * len(_CASE_CHANGE.findall(text)) >= 2 * len(text)
        if _KEY_IN_PATH.fullmatch(text) or (_LETTERS.fullmatch(text) and changes_case):
            return True
    return False


def is_private(url: str) -> bool:
    """Return whether traffic to the URL is private: encrypted, or to this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme in {"https", "wss"} or host in LOOPBACK:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:  # a name, such as 127.example.com
        return False


def secrets_in_url(url: str) -> frozenset[str]:
    """Find the secret parts of a URL, as written and decoded."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return frozenset()
    userinfo = parts.netloc.rpartition("@")[0]
    user, _, password = userinfo.partition(":")
    secrets = {userinfo, password}
    if len(user) >= _MIN_USER_CHARACTERS:
        secrets.add(user)
    secrets.update(step for step in parts.path.split("/") if _is_key(step))
    for pair in parts.query.split("&"):
        name, _, value = pair.partition("=")
        is_secret = looks_secret(unquote_plus(name)) and len(value) >= _MIN_PARAMETER_CHARACTERS
        if is_secret or _is_key(value):
            secrets |= {value, unquote_plus(value)}
    return frozenset(text for part in secrets for text in (part, unquote(part)) if text)


def url_fault(url: str) -> str | None:
    """Describe what is wrong with the URL of a server, without quoting it."""
    if re.search(r"[\s\x00-\x1f]", url):
        return "the URL contains a space"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "the host or the port of the URL is not valid"
    if "://" not in url:
        return "the URL has no scheme"
    if parts.scheme not in _SCHEMES:
        return f'"{parts.scheme}" is not a scheme for a server'
    return None if parts.hostname and port != 0 else "the URL has no host"
