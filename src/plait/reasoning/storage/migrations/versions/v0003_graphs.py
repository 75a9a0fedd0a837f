"""Add nodes and edges of graphs of thoughts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_data = sa.JSON(none_as_null=True)


def _owner() -> sa.Column[str]:
    return sa.Column(
        "session_id", sa.String, sa.ForeignKey("sessions.id", ondelete="CASCADE"), nullable=False
    )


def upgrade() -> None:
    """Create the tables of graphs."""
    op.create_table(
        "graph_nodes",
        sa.Column("id", sa.String, primary_key=True),
        _owner(),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("node_type", sa.String, nullable=False, server_default="thought"),
        sa.Column("score", sa.Float),
        sa.Column("depth", sa.Integer, nullable=False, server_default="0"),
        sa.Column("is_terminal", sa.Boolean, nullable=False, server_default="0"),
        sa.Column("is_root", sa.Boolean, nullable=False, server_default="0"),
        sa.Column("is_active", sa.Boolean, nullable=False, server_default="1"),
        sa.Column("created_at", sa.String, nullable=False),
        sa.Column("metadata", _data),
    )
    for column in ("session_id", "node_type", "is_terminal", "is_active"):
        op.create_index(f"ix_graph_nodes_{column}", "graph_nodes", [column])
    op.create_table(
        "graph_edges",
        sa.Column("id", sa.String, primary_key=True),
        _owner(),
        *(
            sa.Column(
                name,
                sa.String,
                sa.ForeignKey("graph_nodes.id", ondelete="CASCADE"),
                nullable=False,
            )
            for name in ("from_node", "to_node")
        ),
        sa.Column("edge_type", sa.String, nullable=False, server_default="generates"),
        sa.Column("weight", sa.Float, nullable=False, server_default="1.0"),
        sa.Column("created_at", sa.String, nullable=False),
        sa.Column("metadata", _data),
    )
    for column in ("session_id", "from_node", "to_node", "edge_type"):
        op.create_index(f"ix_graph_edges_{column}", "graph_edges", [column])
