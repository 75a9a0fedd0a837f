"""Guess what somebody meant by a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], *, most: int = 3) -> list[str]:
    """Return the known names that look most like this one, the likeliest first."""
    from difflib import get_close_matches

    by_folded: dict[str, str] = {}
    for candidate in known:
        by_folded.setdefault(_folded(candidate), candidate)
    wanted = _folded(name)
    close = get_close_matches(wanted, by_folded, n=most, cutoff=0.6)
    parts = [folded for folded in by_folded if wanted and (wanted in folded or folded in wanted)]
    return [by_folded[folded] for folded in dict.fromkeys([*close, *parts])][:most]


def _folded(name: str) -> str:
    return name.casefold().replace("-", "_")


def did_you_mean(name: str, known: Iterable[str], *, most_listed: int = 12) -> str:
    """Make one sentence of the nearest names, or of all of them when they are few."""
    names = list(known)
    close = nearest(name, names)
    if close:
        return f"did you mean {either(close)}?"
    if not names:
        return "there are none"
    listed = ", ".join(names[:most_listed])
    return f"there are: {listed}{', …' if len(names) > most_listed else ''}"


def either(names: list[str]) -> str:
    """Join names with commas and an "or"."""
    quoted = [repr(name) for name in names]
    if len(quoted) == 1:
        return quoted[0]
    return f"{', '.join(quoted[:-1])} or {quoted[-1]}"
