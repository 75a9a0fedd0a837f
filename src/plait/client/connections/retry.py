"""When a request may be retried without running anything twice."""

from __future__ import annotations

from plait.errors import ConnectError, PlaitError

ATTEMPTS = 3
"""Attempts of one request, the first included."""
PAUSE_SECONDS = 0.2
"""Pause before a retry on a session that is still open."""


def may_retry(error: PlaitError, *, idempotent: bool) -> bool:
    """Return whether a retry could help and is safe."""
    if isinstance(error, ConnectError | TimeoutError):
        return False  # the connection has already retried, or the time is used up
    return error.retry == "always" or (error.retry == "if_idempotent" and idempotent)


def pause_before_retry(error: PlaitError, seconds_left: float) -> float | None:
    """Return the pause before a retry, or `None` if the server asks for a longer wait."""
    if error.retry_after is not None:
        return error.retry_after if error.retry_after < seconds_left else None
    # After a lost session, opening the next one takes its own time; a request that was answered
    # must not be repeated at once.
    return 0.0 if error.status is None else PAUSE_SECONDS
