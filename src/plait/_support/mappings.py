"""Reading values whose type is not known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast


def entries_of(value: object) -> Mapping[str, Any]:
    """Return a mapping as it is, and an empty one for anything else."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
