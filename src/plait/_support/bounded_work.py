"""Bounds the CPU time of work with the schemas of servers, whose parts can multiply without end.

Such work takes steps; each looks at the CPU time of its thread, which other threads do not change.
Their regular expressions are searched by RE2, in time that is linear in the text.
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, TypeVar, cast

from plait._support.threads import in_thread

T = TypeVar("T")

QUICK_SECONDS: Final = 0.02
"""How long a validation may take in an event loop; it starts again in a thread then."""
MAX_WORK_SECONDS: Final = 0.5
"""How long it may take there."""
MIN_STEPS_PER_SECOND: Final = 10_000
"""Even slow steps are as fast as this."""
MAX_PATTERN_BYTES: Final = 1024 * 1024
"""Bounds the size of one compiled pattern, and the time to compile it."""
MAX_PATTERN_CHARS: Final = 4_000
"""Longer patterns are lists of words, which no model reads."""
MAX_SEARCH_STEPS: Final = 2_000_000
"""Size of the pattern times length of the text, about 20 ms at worst."""
SEARCH_STEPS_PER_STEP: Final = 10_000
"""So many steps of a search take about as long as another step."""
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|[\s\S])")


class TooMuchWorkError(Exception):
    """Work with a schema takes too long, so that its outcome stays unknown."""


class _Allowance(threading.local):
    until: float | None = None
    """CPU time of this thread at which the running work ends; `None` outside of one."""
    steps: int = 0
    """How many steps it may take whatever the time: a garbage collection is not its fault."""


_allowance = _Allowance()


@contextmanager
def allowed_seconds(seconds: float = MAX_WORK_SECONDS) -> Generator[None]:
    """Bound the CPU time of the block, unless a bound is set already."""
    if _allowance.until is not None:
        yield
        return
    _allowance.until = time.thread_time() + seconds
    _allowance.steps = int(seconds * MIN_STEPS_PER_SECOND)
    try:
        yield
    finally:
        _allowance.until = None


def take_step(weight: int = 1) -> None:
    """Raise `TooMuchWorkError` if the work of this thread has taken too long."""
    if _allowance.until is not None:
        _allowance.steps -= weight
        if _allowance.steps < 0 and time.thread_time() > _allowance.until:
            raise TooMuchWorkError("that takes too long")


async def in_bounded_time(work: Callable[[], T], seconds: float = math.inf) -> T:
    """Run work that validates: here if it is quick, else once more in a thread.

    It ends after `seconds` at the latest, however busy threads and machine are.

    Raises:
        TooMuchWorkError: It takes too long there as well.
    """
    try:
        with allowed_seconds(QUICK_SECONDS):
            return work()
    except TooMuchWorkError:
        pass

    def in_own_thread() -> T:
        with allowed_seconds(min(seconds, MAX_WORK_SECONDS)):
            return work()

    try:
        async with asyncio.timeout(seconds if math.isfinite(seconds) else None):
            return await in_thread(in_own_thread)
    except TimeoutError:
        raise TooMuchWorkError("there is no time left") from None


def found(pattern: str, text: str) -> bool | None:
    """Return whether a pattern of a JSON schema matches somewhere in a text.

    `None` means unknown: the pattern looks ahead, behind or back, which takes more than linear
    time, or it is no regular expression, or pattern or text are very long.
    """
    compiled = _compiled(pattern)
    if compiled is None or (steps := compiled.programsize * len(text)) > MAX_SEARCH_STEPS:
        return None
    take_step(1 + steps // SEARCH_STEPS_PER_STEP)
    try:
        return compiled.search(text) is not None
    except UnicodeEncodeError:  # a lone surrogate
        return None


def can_search(pattern: str) -> bool:
    """Return whether texts can be searched with a pattern."""
    return _compiled(pattern) is not None


@lru_cache(maxsize=512)
def _compiled(pattern: str) -> Any | None:
    import re2  # noqa: PLC0415  # not before a schema has a pattern

    def in_re2(escape: re.Match[str]) -> str:
        r"""Write `\u00e9` as RE2 does; other escapes stay."""
        code = escape[1] or escape[2]
        return escape[0] if code is None else rf"\x{{{code}}}"

    if len(pattern) > MAX_PATTERN_CHARS:
        return None
    options = cast("Any", re2.Options())
    options.log_errors = False
    options.max_mem = MAX_PATTERN_BYTES
    try:
        return cast("Any", re2).compile(_ESCAPE.sub(in_re2, pattern), options)
    except (cast("Any", re2).error, UnicodeEncodeError):
        return None
