"""Finds the cause in a tree of exceptions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import cast


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the leaf exceptions of a group; a plain exception yields itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(inner)
    else:
        yield error


def first_cause(error: BaseException) -> BaseException:
    """Return the first leaf exception that is not a cancellation."""
    found = list(leaves(error))
    causes = [leaf for leaf in found if not isinstance(leaf, asyncio.CancelledError)]
    return (causes or found or [error])[0]


def one_line(text: str, limit: int = 200) -> str:
    """Fold a text to one line of at most `limit` characters."""
    folded = " ".join(text.split())
    return folded if len(folded) <= limit else folded[: limit - 1] + "…"
