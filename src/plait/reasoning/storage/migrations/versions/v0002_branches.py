"""Add branches, cross references, checkpoints and snapshots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plait.reasoning.storage.columns import DATA, key, owner, reference, required

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables of trees and checkpoints."""
    _create_branches()
    op.create_table(
        "cross_refs",
        key(),
        owner("from_branch_id", "branches.id"),
        owner("to_branch_id", "branches.id"),
        required("ref_type"),
        sa.Column("reason", sa.Text),
        required("strength", sa.Float, "1.0"),
        required("created_at"),
    )
    op.create_table(
        "checkpoints",
        key(),
        owner("session_id", "sessions.id"),
        reference("branch_id", "branches.id"),
        required("name", sa.Text),
        sa.Column("description", sa.Text),
        required("snapshot", DATA),
        required("created_at", index=True),
    )
    op.create_table(
        "state_snapshots",
        key(),
        owner("session_id", "sessions.id"),
        required("snapshot_type", index=True),
        required("state_data", DATA),
        reference("parent_snapshot_id", "state_snapshots.id"),
        required("created_at"),
        sa.Column("description", sa.Text),
    )


def _create_branches() -> None:
    op.create_table(
        "branches",
        key(),
        owner("session_id", "sessions.id"),
        required("name", sa.Text),
        reference("parent_branch_id", "branches.id"),
        required("priority", sa.Float, "1.0"),
        required("confidence", sa.Float, "0.8"),
        required("state", default="active", index=True),
        required("created_at"),
        required("updated_at"),
        sa.Column("metadata", DATA),
    )
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
