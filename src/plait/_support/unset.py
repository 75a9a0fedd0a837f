"""A value that stands for none, where `None` is a value."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = auto()


UNSET: Final = Unset.UNSET
"""No value, where `None` is a value."""
