"""Parses the `Retry-After` header."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def seconds_from_retry_after(header: str | None) -> float | None:
    """Return the seconds to wait, from a number or a date; `None` if it is neither."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        pass
    else:
        return max(0.0, seconds) if math.isfinite(seconds) else None
    try:
        then = parsedate_to_datetime(header)
    except ValueError:
        return None
    aware = then if then.tzinfo is not None else then.replace(tzinfo=UTC)
    return max(0.0, (aware - datetime.now(UTC)).total_seconds())
