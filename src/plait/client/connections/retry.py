"""When a request may be made again, without running anything twice by accident."""

from __future__ import annotations

from plait.errors import ConnectError, PlaitError

ATTEMPTS = 3
"""Tries of one request in all, the first included."""

PAUSE_SECONDS = 0.2
"""Before a repeat on a session that still stands."""


def may_retry(error: PlaitError, *, idempotent: bool) -> bool:
    """Say whether a repeat could help and can do no harm."""
    if isinstance(error, ConnectError | TimeoutError):
        return False  # the connection has tried already, or the time is used up
    return error.retry == "always" or (error.retry == "if_idempotent" and idempotent)


def pause_before_retry(error: PlaitError, seconds_left: float) -> float | None:
    """Say how long to wait before a repeat, or `None` when the server asks for too much."""
    if error.retry_after is not None:
        return error.retry_after if error.retry_after < seconds_left else None
    # After a loss the next session decides how long it takes; an answered request must not be
    # repeated at once.
    return 0.0 if error.status is None else PAUSE_SECONDS
