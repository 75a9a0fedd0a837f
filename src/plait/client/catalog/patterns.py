"""Searches texts with the regular expressions of servers, in time that is linear in the text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, cast

from plait.client.catalog.allowance import take_step

_MOST_MEMORY_BYTES: Final = 1024 * 1024
"""Bounds the size of one compiled pattern, and the time to compile it."""
LONGEST_PATTERN: Final = 4_000
_MOST_STEPS: Final = 2_000_000
"""Size of the pattern times length of the text, about 20 ms at worst."""
_STEPS_OF_ALLOWANCE: Final = 10_000
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|[\s\S])")


def found(pattern: str, text: str) -> bool | None:
    """Return whether a pattern of a JSON schema matches somewhere in a text.

    `None` means unknown: the pattern looks ahead, behind or back, which takes more than linear
    time, or it is no regular expression, or pattern or text are very long.
    """
    compiled = _compiled(pattern)
    if compiled is None or (steps := compiled.programsize * len(text)) > _MOST_STEPS:
        return None
    take_step(1 + steps // _STEPS_OF_ALLOWANCE)
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

    if len(pattern) > LONGEST_PATTERN:
        return None
    options = cast("Any", re2.Options())
    options.log_errors = False
    options.max_mem = _MOST_MEMORY_BYTES
    try:
        return cast("Any", re2).compile(_ESCAPE.sub(_in_re2, pattern), options)
    except (cast("Any", re2).error, UnicodeEncodeError):
        return None


def _in_re2(escape: re.Match[str]) -> str:
    r"""Write `\u00e9` as RE2 does; other escapes stay."""
    code = escape[1] or escape[2]
    return escape[0] if code is None else rf"\x{{{code}}}"
