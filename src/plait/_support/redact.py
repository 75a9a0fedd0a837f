"""Redacts secrets in errors, logs and traces."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from urllib.parse import quote, quote_plus

from plait._support.exception_groups import one_line

HIDDEN = "***"
MIN_SECRET_CHARS = 4
"""Shorter values would blank out ordinary words."""

MAX_UNKNOWN_CHARS = 1_024
"""How much of a text may be one secret that is recognized by its form."""

MIN_ANY_CASE_CHARS = 8
"""Longer values are found in any case: shorter ones could be ordinary words."""
_ASCII_LOWER = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}

_LOOKS_RANDOM = r"(?-i:(?=\S*[0-9=])|(?=\S*[._~+/-]\w)|(?=\S*[a-z][A-Z])|(?=\S{20}))"
"""Distinguishes a token from a word: a digit or symbol, a capital inside, its length."""

_NAMES = ("key", "secret", "passw", "token", "credential", "authorization")

_PATTERNS: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = (
    (
        ("authorization",),
        re.compile(
            r"(?i)\b(authorization\\?[\"']?\s*[:=]\s*\\?[\"']?(?:bearer|basic|token|digest)\s+)"
            r"[^\s\"'\\,;&]+"
        ),
        rf"\1{HIDDEN}",
    ),
    (
        ("bearer", "basic", "token"),
        # Not the parameters of a challenge: `Bearer realm="…"`.
        re.compile(
            rf"(?i)\b(bearer|basic|token)\s+(?-i:(?![a-z_]+=\\?[\"'][^\"']))"
            rf"{_LOOKS_RANDOM}[A-Za-z0-9._~+/=-]{{6,}}"
        ),
        rf"\1 {HIDDEN}",
    ),
    (("://",), re.compile(r"(://)[^/\s]+@"), rf"\1{HIDDEN}@"),
    (
        _NAMES,
        re.compile(
            # Possessive: backtracking in long words would take minutes.
            # A progress token is a number that the client counts.
            r"(?i)(?<![\w-])(?!progress_?token\b)((?=[\w-]*?"
            r"(?:api[_-]?key|secret|password|passwd|token|credential|authorization))[\w-]++)"
            r"(\\?[\"']?\s*[:=]\s*\\?[\"']?)(?!\s|bearer |basic |token |digest )([^\s\"'\\,;&]{4,})"
        ),
        rf"\1\2{HIDDEN}",
    ),
    (("",), re.compile(r"\b(?:sk|pk|ghp|gho|xox[abp]|AKIA)[-_A-Za-z0-9]{12,}"), HIDDEN),
)
"""Patterns of secrets: words that must occur, the pattern, and its replacement.

Searching for the words first keeps long texts without them fast.
"""


class Redactor:
    """Replaces known secrets, and what looks like one, in any text."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._known = frozenset(secret for secret in secrets if _is_long_enough(secret))

    @cached_property
    def _secrets(self) -> list[str]:
        """All encoded forms of the values, computed on first use; long ones in lower case."""
        every = {text for one in self._known for text in encoded_forms(one)}
        folded = {_lower(text) if len(text) >= MIN_ANY_CASE_CHARS else text for text in every}
        # Longest first, so that a secret inside another leaves no remainder.
        return sorted(filter(_is_long_enough, folded), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Return the text without its secrets."""
        lower = _lower(text)
        for secret in self._secrets:
            if len(secret) < MIN_ANY_CASE_CHARS:
                if secret in text:
                    text = text.replace(secret, HIDDEN)
                    lower = _lower(text)
            elif secret in lower:
                parts: list[str] = []
                start = 0
                while (found := lower.find(secret, start)) >= 0:
                    parts += [text[start:found], HIDDEN]
                    start = found + len(secret)
                text = "".join([*parts, text[start:]])
                lower = lower.replace(secret, HIDDEN)
        folded = text.casefold()
        for words, pattern, replacement in _PATTERNS:
            for word in words:  # a generator would take longer than the search in a short text
                if word in folded:
                    text = pattern.sub(replacement, text)
                    break
        return text

    def also(self, secrets: Iterable[str]) -> Redactor:
        """Return a redactor that hides these values too."""
        return Redactor([*self._known, *secrets])

    def excerpt(self, text: str, limit: int = 200) -> str:
        """Return one short, safe line of the text, fit for an error message."""
        return one_line(self.beginning(text, 50 * limit), limit)

    def beginning(self, text: str, limit: int) -> str:
        """Return the first `limit` characters of a long text or fewer, without secrets.

        Redacting megabytes that are not shown would take seconds.
        """
        if len(text) <= limit:
            return self(text)
        # A secret that is cut in two is not recognized: it can only be at the end.
        unsure = max(MAX_UNKNOWN_CHARS, *map(len, self._secrets[:1]), 0)
        return self(text[: limit + unsure])[:-unsure][:limit] + "…"


def _lower(text: str) -> str:
    """Return a text of the same length in lower case."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.translate(_ASCII_LOWER)


def _is_long_enough(secret: str) -> bool:
    return len(secret.strip()) >= MIN_SECRET_CHARS


_SECRET_WORDS = frozenset(
    {"key", "keys", "auth", "authorization", "authentication", "bearer", "cookie", "creds", "jwt"}
    | {"otp", "pass", "passphrase", "pat", "pin", "private", "psk", "pw", "pwd", "sig", "signature"}
)

_SECRET_PARTS = re.compile(r"token|secret|passw|api_?key|credential", re.IGNORECASE)
"""Recognized inside a longer word too, as in `GITHUBTOKEN`."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def looks_secret(name: str) -> bool:
    """Return whether a variable, header, flag or query parameter of this name holds a secret."""
    if _SECRET_PARTS.search(name.replace("-", "_")):
        return True
    return any(word.lower() in _SECRET_WORDS for word in _WORD.findall(name))


MIN_ENCODED_CHARS = 6
"""Encodings of shorter values could occur in other words by chance."""

MIN_LINE_CHARS = 8
"""Shorter lines of a value, such as `}`, stand in other texts too."""


_QUOTINGS: tuple[Callable[[str], str], ...] = (
    lambda text: json.dumps(text)[1:-1],
    lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    lambda text: repr(text)[1:-1],
    lambda text: repr(text.encode())[2:-1],
    lambda text: shlex.quote(text).removeprefix("'").removesuffix("'"),
    html.escape,
    lambda text: html.escape(text, quote=False),
    quote,
    lambda text: quote(text, safe=""),
    quote_plus,
    lambda text: re.sub("%..", lambda escape: escape[0].lower(), quote(text, safe="")),
)


def encoded_forms(value: str) -> frozenset[str]:
    """Return the value and its forms in JSON, a URL, HTML, a `repr`, hex or base64, also twice."""
    found = {value, value.strip()}
    if len(value) < MIN_ENCODED_CHARS:
        return frozenset(found)
    found.update(line for line in map(str.strip, value.splitlines()) if len(line) >= MIN_LINE_CHARS)
    plain = {*found, quote(value, safe="")}
    for _ in range(2):  # twice: JSON is often quoted inside JSON
        found.update(quoted(text) for text in tuple(found) for quoted in _QUOTINGS)
    for text in plain:
        found.add(text.encode("utf-8", "surrogatepass").hex())
        once = set(_encoded(text))
        found.update(once)
        found.update(part for inner in once for part in _encoded(inner))
    return frozenset(found)


def _encoded(text: str) -> Iterator[str]:
    """Yield the base64 forms of a text at any offset in a longer one.

    Without the characters at either end, which also depend on the surrounding text.
    """
    data = text.encode("utf-8", "surrogatepass")
    for offset in range(3):
        inner = base64.b64encode(bytes(offset) + data)
        first = (0, 2, 3)[offset]
        last = (offset + len(data)) * 8 // 6
        part = inner[first:last].decode()
        if len(part) >= MIN_ENCODED_CHARS:
            yield part
            yield part.translate(str.maketrans("+/", "-_"))
