"""What an error says of a call: its kind, and whether the call may be made again elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any, cast

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
    results (anything whose `is_error` is true), both also as JSON objects, and the built-in
    connection and timeout errors.
    """
    text = str(error) or type(error).__name__
    judged: Any = error
    if isinstance(error, dict):
        whole = cast("dict[str, Any]", error)
        # Perhaps the whole response.
        fields: Any = whole.get("error") or whole.get("result") or whole
        if isinstance(fields, dict):
            part = cast("dict[str, Any]", fields)
            text = str(part.get("message") or text)
            blocks: list[object] = [*filter(None, part.get("content") or ())]
            content = [SimpleNamespace(**one) if isinstance(one, dict) else one for one in blocks]
            is_error = part.get("isError")
            judged = SimpleNamespace(code=part.get("code"), is_error=is_error, content=content)
    if isinstance(error, PlaitError):
        return error.kind, error.retryable, error.message
    if getattr(judged, "is_error", None) is True:
        parts: Iterable[object] = getattr(judged, "content", None) or ()
        texts = (getattr(block, "text", None) for block in parts)
        result_text = "\n".join(one for one in texts if isinstance(one, str))
        return "domain", False, result_text or text
    code = getattr(judged, "code", None)
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


def retry_reason(error: PlaitError) -> str:
    """Return why a call is repeated: the error, without the advice to check before repeating it.

    A call is repeated only if it did not run, or may run twice: the advice does not hold for it.
    """
    return str(error).partition(". It is not known whether the call took effect")[0]


def mark_harmless(error: PlaitError) -> None:
    """Say of a lost answer that its call changed nothing, in place of the advice to check."""
    reason = retry_reason(error)
    if reason != str(error):
        error.message = f"{reason}. The tool only reads, so the call has changed nothing"
        error.args = (error.message,)


def backups_only(fallbacks: Mapping[str, str]) -> frozenset[str]:
    """Return the fallback servers that have no fallback of their own."""
    return frozenset(set(fallbacks.values()) - set(fallbacks))
