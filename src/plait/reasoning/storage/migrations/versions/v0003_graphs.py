"""Add nodes and edges of graphs of thoughts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from plait.reasoning.storage.columns import DATA, key, owner, required

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the tables of graphs."""
    op.create_table(
        "graph_nodes",
        key(),
        owner("session_id", "sessions.id"),
        required("content", sa.Text),
        required("node_type", default="thought", index=True),
        sa.Column("score", sa.Float),
        required("depth", sa.Integer, "0"),
        required("is_terminal", sa.Boolean, "0", index=True),
        required("is_root", sa.Boolean, "0"),
        required("is_active", sa.Boolean, "1", index=True),
        required("created_at"),
        sa.Column("metadata", DATA),
    )
    op.create_table(
        "graph_edges",
        key(),
        owner("session_id", "sessions.id"),
        owner("from_node", "graph_nodes.id"),
        owner("to_node", "graph_nodes.id"),
        required("edge_type", default="generates", index=True),
        required("weight", sa.Float, "1.0"),
        required("created_at"),
        sa.Column("metadata", DATA),
    )
