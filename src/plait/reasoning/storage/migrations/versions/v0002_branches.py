"""Add branches, cross references, checkpoints and snapshots."""

from __future__ import annotations

from alembic import op

from plait.reasoning.storage import tables
from plait.reasoning.storage.migrations import create_tables

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the tables of trees and checkpoints."""
    create_tables(tables.branches, tables.cross_refs, tables.checkpoints, tables.state_snapshots)
    op.create_index("ix_branches_session_id", "branches", ["session_id"])
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
