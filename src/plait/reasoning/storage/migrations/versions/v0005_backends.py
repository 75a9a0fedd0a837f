"""Add the backend of invocations."""

from __future__ import annotations

from plait.reasoning.storage.migrations import add_columns

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the column; it is null in earlier rows."""
    add_columns(revision)
