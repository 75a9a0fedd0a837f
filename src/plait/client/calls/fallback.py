"""Classifies errors, and decides which failed calls may go to a fallback server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from plait.errors import ConnectError, ErrorKind, OutcomeUnknownError, PlaitError, ProtocolError

BeforeFallback = Callable[[PlaitError, Any], Awaitable[bool | None] | bool | None]
"""Gets the error and the call before the fallback server is used; `False` vetoes it."""

_KINDS_BY_CODE: dict[int, tuple[ErrorKind, bool]] = {
    **dict.fromkeys((-32700, -32600, -32601, -32602, -32603), ("protocol", True)),
    **dict.fromkeys((-32020, -32021, -32022), ("protocol", False)),
    **dict.fromkeys((-32000, -32001), ("transport", True)),
    -32002: ("domain", False),
}


def classify_error(error: object) -> tuple[ErrorKind, bool, str]:
    """Return the kind of an error, whether it may go to a fallback server, and its text.

    Takes errors of this package, JSON-RPC errors (anything with an integer `code`), failed tool
    results (anything whose `is_error` is true), and the built-in connection and timeout errors.
    """
    text = str(error) or type(error).__name__
    if isinstance(error, PlaitError):
        return error.kind, error.retryable, error.message
    if getattr(error, "is_error", None) is True:
        return "domain", False, _result_text(error) or text
    code = getattr(error, "code", None)
    if isinstance(code, int):
        return *_KINDS_BY_CODE.get(code, ("unknown", False)), text
    if isinstance(error, ConnectionError | TimeoutError):
        return "transport", True, text
    return "unknown", False, text


def should_retry(error: object) -> bool:
    """Say whether an error may go to a fallback server."""
    return classify_error(error)[1]


def has_not_run(error: PlaitError) -> bool:
    """Say whether the tool surely has not run: not sent, refused, or a JSON-RPC error."""
    return error.retry == "always" or isinstance(error, ConnectError | ProtocolError)


def may_fall_back(error: PlaitError, *, idempotent: bool) -> bool:
    """Say whether a call that failed with this error may go to the fallback server."""
    if not (error.retryable or isinstance(error, OutcomeUnknownError)):
        return False
    return has_not_run(error) or idempotent


def backups_only(fallbacks: Mapping[str, str]) -> frozenset[str]:
    """Return the fallback servers that have no fallback of their own."""
    return frozenset(set(fallbacks.values()) - set(fallbacks))


def _result_text(result: object) -> str:
    blocks: Iterable[object] = getattr(result, "content", None) or ()
    texts = (getattr(block, "text", None) for block in blocks)
    return "\n".join(text for text in texts if isinstance(text, str))
