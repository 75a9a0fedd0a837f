"""Suggests known names for one that does not exist."""

from __future__ import annotations

import difflib
import heapq
import re
from collections.abc import Iterable
from typing import Final

MAX_SUGGESTED_NAMES: Final = 3
"""More names are no suggestion, but a list."""
MAX_COMPARED_NAMES: Final = 150
MAX_COMPARED_CHARS: Final = 64
"""Comparing two names takes time that grows with the product of their lengths."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, in the same spelling style if possible."""
    names = list(known)
    same_style = [one for one in names if is_camel_case(one) == is_camel_case(name)]
    for group in (same_style, names):
        by_letters = {_letters(one): one for one in group}
        close = _close(_letters(name), by_letters, most=1, cutoff=0.7)
        if close:
            return by_letters[close[0]]
    return None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Suggest the nearest known name, or return `None` if none is near."""
    meant = nearest(name, known)
    return f'did you mean "{meant}"?' if meant else None


def nearest_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names that are similar or contain each other, the likeliest first."""
    by_letters: dict[str, str] = {}
    for one in known:
        by_letters.setdefault(_letters(one), one)
    letters = _letters(name)
    close = _close(letters, by_letters, most=MAX_SUGGESTED_NAMES, cutoff=0.6)
    parts = [one for one in by_letters if letters and one and (letters in one or one in letters)]
    return [by_letters[one] for one in dict.fromkeys([*close, *parts])][:MAX_SUGGESTED_NAMES]


def suggest_names(name: str, known: Iterable[str], *, most_listed: int = 12) -> str:
    """Suggest the nearest names, or list the known ones if none is near."""
    names = list(known)
    if close := [repr(one) for one in nearest_names(name, names)]:
        return f"did you mean {' or '.join(filter(None, [', '.join(close[:-1]), close[-1]]))}?"
    if not names:
        return "there are none"
    listed = ", ".join(names[:most_listed])
    return f"there are: {listed}{', …' if len(names) > most_listed else ''}"


def is_camel_case(name: str) -> bool:
    """Return whether a name is spelled in camelCase."""
    return any(letter.isupper() for letter in name)


def _close(letters: str, known: Iterable[str], *, most: int, cutoff: float) -> list[str]:
    """Find similar names; of thousands, only those that begin alike and are about as long."""

    def unlikeness(one: str) -> tuple[bool, int]:
        return one[:1] != letters[:1], abs(len(one) - len(letters))

    compared = heapq.nsmallest(MAX_COMPARED_NAMES, known, key=unlikeness)
    return difflib.get_close_matches(letters, compared, n=most, cutoff=cutoff)


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name[:MAX_COMPARED_CHARS]).casefold()
