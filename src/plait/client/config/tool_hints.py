"""What a server can hint at about a tool, and how the hints are spelled."""

from __future__ import annotations

import re
from typing import Final, Literal

Trait = Literal["read_only", "destructive", "idempotent", "open_world"]
"""What a server can hint at about a tool."""

TRAITS: Final[tuple[Trait, ...]] = ("read_only", "destructive", "idempotent", "open_world")


def trait_named(spelling: str) -> Trait | None:
    """Find the trait that is meant by `read_only`, `readOnly`, `read_only_hint`, `readOnlyHint`."""
    letters = re.sub(r"[\s_-]", "", spelling).lower().removesuffix("hint")
    return next((trait for trait in TRAITS if trait.replace("_", "") == letters), None)
