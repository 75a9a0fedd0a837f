"""Formats sizes."""

from __future__ import annotations

MAX_LABEL_BYTES = 10**24
"""No file is larger, but a server may claim so: there is no unit for it."""


def size_label(size_bytes: int) -> str:
    """Format a size: `512 B`, `3.4 kB`."""
    if size_bytes >= MAX_LABEL_BYTES:
        return "more bytes than there are"
    amount = float(size_bytes)
    if amount < 1000:
        return f"{size_bytes} B"
    for unit in ("kB", "MB"):
        amount /= 1000
        if round(amount, 1) < 1000:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1000:.1f} GB"
