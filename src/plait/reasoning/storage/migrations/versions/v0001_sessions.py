"""Add sessions, thoughts and invocations."""

from __future__ import annotations

from alembic import op

from plait.reasoning.storage import tables
from plait.reasoning.storage.migrations import create_tables

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the first tables."""
    create_tables(tables.sessions, tables.thoughts, tables.invocations)
    op.create_index("ix_thoughts_session_id", "thoughts", ["session_id"])
