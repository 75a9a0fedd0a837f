"""Add branches, cross references, checkpoints and snapshots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_data = sa.JSON(none_as_null=True)


def _owner() -> sa.Column[str]:
    return sa.Column(
        "session_id", sa.String, sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False
    )


def upgrade() -> None:
    """Create the tables of trees and checkpoints."""
    _create_branches()
    _create_cross_refs()
    _create_checkpoints()
    _create_snapshots()


def _create_branches() -> None:
    op.create_table(
        "branches",
        sa.Column("id", sa.String, primary_key=True),
        _owner(),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("parent_branch_id", sa.String, sa.ForeignKey("branches.id", ondelete="SET NULL")),
        sa.Column("priority", sa.Float, nullable=False, server_default="1.0"),
        sa.Column("confidence", sa.Float, nullable=False, server_default="0.8"),
        sa.Column("state", sa.String, nullable=False, server_default="active"),
        sa.Column("created_at", sa.String, nullable=False),
        sa.Column("updated_at", sa.String, nullable=False),
        sa.Column("metadata", _data),
    )
    op.create_index("ix_branches_session_id", "branches", ["session_id"])
    op.create_index("ix_branches_parent_branch_id", "branches", ["parent_branch_id"])
    op.create_index("ix_branches_state", "branches", ["state"])
    # Written out, because SQLite can add a reference only together with its column.
    op.execute(
        "ALTER TABLE thoughts ADD COLUMN branch_id VARCHAR "
        "REFERENCES branches(id) ON DELETE SET NULL"
    )
    op.execute(
        "ALTER TABLE sessions ADD COLUMN active_branch_id VARCHAR "
        "REFERENCES branches(id) ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED"
    )
    op.create_index("ix_thoughts_branch_id", "thoughts", ["branch_id"])
    op.create_index("ix_sessions_active_branch_id", "sessions", ["active_branch_id"])


def _create_cross_refs() -> None:
    op.create_table(
        "cross_refs",
        sa.Column("id", sa.String, primary_key=True),
        *(
            sa.Column(
                name, sa.String, sa.ForeignKey("branches.id", ondelete="CASCADE"), nullable=False
            )
            for name in ("from_branch_id", "to_branch_id")
        ),
        sa.Column("ref_type", sa.String, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("strength", sa.Float, nullable=False, server_default="1.0"),
        sa.Column("created_at", sa.String, nullable=False),
    )
    op.create_index("ix_cross_refs_from_branch_id", "cross_refs", ["from_branch_id"])
    op.create_index("ix_cross_refs_to_branch_id", "cross_refs", ["to_branch_id"])


def _create_checkpoints() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("id", sa.String, primary_key=True),
        _owner(),
        sa.Column("branch_id", sa.String, sa.ForeignKey("branches.id", ondelete="SET NULL")),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("description", sa.Text),
        sa.Column("snapshot", _data, nullable=False),
        sa.Column("created_at", sa.String, nullable=False),
    )
    for column in ("session_id", "branch_id", "created_at"):
        op.create_index(f"ix_checkpoints_{column}", "checkpoints", [column])


def _create_snapshots() -> None:
    op.create_table(
        "state_snapshots",
        sa.Column("id", sa.String, primary_key=True),
        _owner(),
        sa.Column("snapshot_type", sa.String, nullable=False),
        sa.Column("state_data", _data, nullable=False),
        sa.Column(
            "parent_snapshot_id",
            sa.String,
            sa.ForeignKey("state_snapshots.id", ondelete="SET NULL"),
        ),
        sa.Column("created_at", sa.String, nullable=False),
        sa.Column("description", sa.Text),
    )
    for column in ("session_id", "snapshot_type", "parent_snapshot_id"):
        op.create_index(f"ix_state_snapshots_{column}", "state_snapshots", [column])
