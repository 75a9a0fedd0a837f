"""When a call may go to another server, without running anything twice by accident."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from plait.errors import ConnectError, OutcomeUnknownError, PlaitError, ProtocolError

BeforeFallback = Callable[[PlaitError, Any], Awaitable[bool | None] | bool | None]
"""Gets the error and the call before the backup is asked; `False` forbids it."""


def has_not_run(error: PlaitError) -> bool:
    """Say whether the tool surely has not run: never sent, refused, answered with an error."""
    return error.retry == "always" or isinstance(error, ConnectError | ProtocolError)


def may_fall_back(error: PlaitError, *, idempotent: bool) -> bool:
    """Say whether a backup may be asked to do what failed with this error."""
    if not (error.retryable or isinstance(error, OutcomeUnknownError)):
        return False
    return has_not_run(error) or idempotent


def backups_only(fallbacks: Mapping[str, str]) -> frozenset[str]:
    """Name the servers that stand in for others and have no backup of their own."""
    return frozenset(set(fallbacks.values()) - set(fallbacks))
