"""Looking for a planted text in everything that a person or another program could see."""

from __future__ import annotations

import base64
import json
import logging
import traceback
from collections.abc import Iterable, Iterator
from typing import Any, cast
from urllib.parse import quote
from uuid import uuid4


def canary() -> str:
    """Return a text that stands nowhere else, with signs that have to be escaped somewhere."""
    return f"canary-{uuid4().hex[:12]}/+{uuid4().hex[:6]}"


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and everything that it is said to come from."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", one).exceptions


def texts_of(error: BaseException) -> Iterator[str]:
    """Yield all that an error says of itself, and of what led to it."""
    for one in chain(error):
        yield str(one)
        yield repr(one)
        yield repr(one.args)
        yield from getattr(one, "__notes__", ())
        yield "".join(traceback.format_exception(one))
        if callable(described := getattr(one, "to_dict", None)):
            yield repr(described())


def texts_of_records(records: Iterable[logging.LogRecord], *loggers: str) -> Iterator[str]:
    """Yield what loggers of this package said, as a log file would have it; or other loggers."""
    format_ = logging.Formatter("%(name)s %(message)s").format
    for record in records:
        if record.name.startswith(loggers or "plait"):
            yield format_(record)
            yield repr(record.args)


def spellings_of(secret: str) -> list[str]:
    """Return what to look for: the text, and what encodings make of it."""
    return [
        secret,
        json.dumps(secret)[1:-1],
        quote(secret, safe=""),
        *(
            base64.b64encode(b"x" * n + text.encode())[4:-4].decode()
            for text in (secret, quote(secret, safe=""))
            for n in range(3)
        ),
    ]


def found_in(texts: Iterable[Any], secrets: Iterable[str]) -> list[str]:
    """Return the texts that give a secret away."""
    wanted = [spelling for secret in secrets for spelling in spellings_of(secret)]
    return [text for text in map(str, texts) if any(one in text for one in wanted)]
