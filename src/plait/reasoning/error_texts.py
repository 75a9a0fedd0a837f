"""The sentences in which a call is refused; a model reads them, so they say what to do."""

from __future__ import annotations

from plait.errors import RefusedError


def invalid(field: str, reason: str) -> RefusedError:
    """Refuse an argument."""
    return RefusedError(f"Validation failed: {field} - {reason}")


def session_fault(reason: str) -> RefusedError:
    """Refuse a call that does not fit its session."""
    return RefusedError(f"Session error: {reason}")


def supply(parameter: str, shape: str) -> RefusedError:
    """Ask the caller for what a model would have written."""
    return RefusedError(
        f"Input needed: {parameter} - No model is connected (backend: host), so you write this "
        f"part yourself. Call again with the same arguments and {parameter}={shape}"
    )
