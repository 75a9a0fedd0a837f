"""The coarse class of any error: which kind it is, and whether another server may be asked."""

from __future__ import annotations

from collections.abc import Iterable

from plait.errors import ErrorKind, PlaitError

_PROTOCOL_CODES = frozenset({-32700, -32600, -32601, -32602, -32603})
_OWN_FAULT_CODES = frozenset({-32020, -32021, -32022})
_TRANSPORT_CODES = frozenset({-32000, -32001})
_DOMAIN_CODES = frozenset({-32002})


def classify_error(error: object) -> tuple[ErrorKind, bool, str]:
    """Return the kind of an error, whether it may go to a fallback server, and its text.

    Takes errors of this package, JSON-RPC errors (anything with an integer `code`), failed tool
    results (anything whose `is_error` is true), and the built-in connection and timeout errors.
    """
    text = str(error) or type(error).__name__
    if isinstance(error, PlaitError):
        return error.kind, error.retryable, error.message
    if getattr(error, "is_error", None) is True:
        return "domain", False, _said(error) or text
    code = getattr(error, "code", None)
    if isinstance(code, int):
        kind, retryable = _by_code(code)
        return kind, retryable, text
    if isinstance(error, ConnectionError | TimeoutError):
        return "transport", True, text
    return "unknown", False, text


def should_retry(error: object) -> bool:
    """Say whether an error may go to a fallback server."""
    return classify_error(error)[1]


def _said(result: object) -> str:
    """Return the text of a failed result."""
    blocks: Iterable[object] = getattr(result, "content", None) or ()
    texts = (getattr(block, "text", None) for block in blocks)
    return "\n".join(text for text in texts if isinstance(text, str))


def _by_code(code: int) -> tuple[ErrorKind, bool]:
    if code in _PROTOCOL_CODES:
        return "protocol", True
    if code in _OWN_FAULT_CODES:
        return "protocol", False
    if code in _TRANSPORT_CODES:
        return "transport", True
    if code in _DOMAIN_CODES:
        return "domain", False
    return "unknown", False
