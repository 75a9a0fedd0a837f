"""Lists and numbers, written for people."""

from __future__ import annotations

from collections.abc import Sequence

from plait.cli.terminal import count_label


def and_list(words: Sequence[str]) -> str:
    """Join words with commas and an "and"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def some_of(words: Sequence[str], most: int = 3) -> str:
    """Join the first few words, and say how many more there are."""
    if len(words) <= most:
        return and_list(words)
    return and_list([*words[:most], f"{len(words) - most} more"])


def tokens_label(tokens: int) -> str:
    """Write an estimated number of tokens: `about 1,650 tokens`."""
    return f"about {tokens:,} token{'' if tokens == 1 else 's'}"


def share_label(part: int, whole: int, noun: str) -> str:
    """Write a part of something: `8 of 12 tools`, or `12 tools` if nothing is missing."""
    return count_label(whole, noun) if part == whole else f"{part} of {count_label(whole, noun)}"
