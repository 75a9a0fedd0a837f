"""Add sessions, thoughts and invocations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plait.reasoning.storage.columns import DATA, key, owner, reference, required

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the first tables."""
    op.create_table(
        "sessions",
        key(),
        required("mode"),
        required("created_at"),
        required("updated_at"),
        sa.Column("metadata", DATA),
    )
    op.create_table(
        "thoughts",
        key(),
        owner("session_id", "sessions.id"),
        required("content", sa.Text),
        required("confidence", sa.Float, "0.8"),
        required("mode"),
        reference("parent_id", "thoughts.id"),
        required("created_at"),
        sa.Column("metadata", DATA),
    )
    op.create_table(
        "invocations",
        key(),
        reference("session_id", "sessions.id"),
        required("tool_name"),
        required("input", DATA),
        sa.Column("output", DATA),
        sa.Column("pipe_name", sa.String),
        sa.Column("latency_ms", sa.Integer),
        required("success", sa.Boolean, "1"),
        sa.Column("error", sa.Text),
        required("created_at", index=True),
    )
