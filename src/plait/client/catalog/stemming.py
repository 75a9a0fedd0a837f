"""The words of a text, in one form for all forms of a word, for searching without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")
"""A word, also inside of `camelCase`, `snake_case` and `HTTPServer`."""

_FILE: Final = re.compile(r"(?<!\S)[\w*/.-]*(?:\w\w|\*)\.[a-z][a-z0-9]{1,3}\b", re.IGNORECASE)
"""The name of a file, or a pattern of such names: who writes `notes.md` means a file."""

_UNTELLING: Final = """
a about am an and any are as at be been but by can could did do does for from had has have
he her his how i if in into is it its just let me my no not of off on or our out please
shall she should so some such than that the their them then there these they this those to
up us use used uses using want was we were what which who whom why will with would you your
"""
"""Words that stand in every text, and tell nothing about what a tool does."""

_STOP_WORDS: Final = frozenset(_UNTELLING.split())

_GROUPS: Final = (
    "add append insert put",
    "add plus sum total",
    "all complete entire everything full whole",
    "allow permit",
    "archive compress zip",
    "begin execute launch run start trigger",
    "big large size",
    "cancel end stop",
    "change edit modify replace update",
    "compare diff difference",
    "connect link relate relationship",
    "copy duplicate",
    "create creation make new",
    "current now today",
    "date day time when",
    "delete drop erase forget remove",
    "detail info information metadata",
    "dir directory folder",
    "display list show view",
    "email mail",
    "env environment",
    "fetch get load open read retrieve view",
    "find locate lookup query search where",
    "history log",
    "image photo picture",
    "many multiple several",
    "message text",
    "move rename",
    "nested recursive subdirectory subfolder",
    "permission right",
    "repo repository",
    "record remember save store write",
    "send post submit",
    "state status",
    "switch toggle",
)
"""Everyday words for the same thing in the world of computers; a word may be in several."""

def words_of(text: str) -> list[str]:
    """Split a text into words, without those that tell nothing, in one form each."""
    return [stem(word) for word in _plain_words(text)]


def query_words_of(text: str) -> list[str]:
    """Split what somebody asks for into words as they are; the name of a file is any file."""
    return list(_plain_words(_FILE.sub(" file ", text)))


def _plain_words(text: str) -> Iterator[str]:
    for found in _WORD.finditer(text):
        if (word := found.group().lower()) not in _STOP_WORDS:
            yield word


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Reduce an English word in lower case to its stem: files, filing and filed are one."""
    from snowballstemmer import stemmer  # noqa: PLC0415  # loads every language: 20 ms and more

    return stemmer("english").stemWord(word)  # it keeps state, so threads cannot share one


@lru_cache(maxsize=1)
def _alike() -> dict[str, frozenset[str]]:
    alike: dict[str, frozenset[str]] = {}
    for group in _GROUPS:
        members = frozenset(map(stem, group.split()))
        for word in members:
            alike[word] = alike.get(word, frozenset()) | members
    return {word: members - {word} for word, members in alike.items()}


def similar_to(word: str) -> frozenset[str]:
    """Return other words, in their one form, that often mean the same."""
    return _alike().get(word, frozenset())
