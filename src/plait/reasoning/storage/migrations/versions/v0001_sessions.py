"""Add sessions, thoughts and invocations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_data = sa.JSON(none_as_null=True)


def upgrade() -> None:
    """Create the first tables."""
    op.create_table(
        "sessions",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("mode", sa.String, nullable=False),
        sa.Column("created_at", sa.String, nullable=False),
        sa.Column("updated_at", sa.String, nullable=False),
        sa.Column("metadata", _data),
    )
    op.create_table(
        "thoughts",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column(
            "session_id",
            sa.String,
            sa.ForeignKey("sessions.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("confidence", sa.Float, nullable=False, server_default="0.8"),
        sa.Column("mode", sa.String, nullable=False),
        sa.Column("parent_id", sa.String, sa.ForeignKey("thoughts.id", ondelete="SET NULL")),
        sa.Column("created_at", sa.String, nullable=False),
        sa.Column("metadata", _data),
    )
    op.create_index("ix_thoughts_session_id", "thoughts", ["session_id"])
    op.create_index("ix_thoughts_parent_id", "thoughts", ["parent_id"])
    op.create_table(
        "invocations",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("session_id", sa.String, sa.ForeignKey("sessions.id", ondelete="SET NULL")),
        sa.Column("tool_name", sa.String, nullable=False),
        sa.Column("input", _data, nullable=False),
        sa.Column("output", _data),
        sa.Column("pipe_name", sa.String),
        sa.Column("latency_ms", sa.Integer),
        sa.Column("success", sa.Boolean, nullable=False, server_default="1"),
        sa.Column("error", sa.Text),
        sa.Column("created_at", sa.String, nullable=False),
    )
    op.create_index("ix_invocations_session_id", "invocations", ["session_id"])
    op.create_index("ix_invocations_created_at", "invocations", ["created_at"])
