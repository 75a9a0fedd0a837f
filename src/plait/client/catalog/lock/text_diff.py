"""What changed in a text, word for word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

from plait._support.sanitize import escaped

Span = tuple[Literal["same", "gone", "new"], str]
"""A run of words, and what became of it."""

_WORD = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_SAME = 60
"""Characters of an unchanged run that are shown on either side of a change."""

_MOST_WORDS = 4000
"""Longer texts are compared line by line: words would take minutes."""


def word_diff(before: str, after: str) -> list[Span]:
    """Compare two texts; characters that nobody sees are written as escapes."""
    old, new = _pieces(before, after)
    spans: list[Span] = []
    for kind, start, end, new_start, new_end in SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        if kind == "equal":
            spans.append(("same", "".join(old[start:end])))
            continue
        if start < end:
            spans.append(("gone", "".join(old[start:end])))
        if new_start < new_end:
            spans.append(("new", "".join(new[new_start:new_end])))
    return list(_shortened(spans))


def text_of_diff(spans: Sequence[Span]) -> str:
    """Write a comparison in one line: `Pay [-a bill-]{+any bill+}.`."""
    marks = {"same": ("", ""), "gone": ("[-", "-]"), "new": ("{+", "+}")}
    parts = [f"{marks[kind][0]}{text}{marks[kind][1]}" for kind, text in spans]
    return " ".join("".join(parts).split())


def _pieces(before: str, after: str) -> tuple[list[str], list[str]]:
    old, new = escaped(before), escaped(after)
    words = _WORD.findall(old), _WORD.findall(new)
    if max(map(len, words)) <= _MOST_WORDS:
        return words
    return old.splitlines(keepends=True), new.splitlines(keepends=True)


def _shortened(spans: Sequence[Span]) -> Iterator[Span]:
    for number, (kind, text) in enumerate(spans):
        if kind != "same" or len(text) <= 2 * _MOST_SAME:
            yield kind, text
            continue
        head = text[:_MOST_SAME] if number else ""
        tail = text[-_MOST_SAME:] if number < len(spans) - 1 else ""
        yield kind, f"{head} … {tail}"
