"""Add nodes and edges of graphs of thoughts."""

from __future__ import annotations

from plait.reasoning.storage import tables
from plait.reasoning.storage.migrations import create_tables

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create the tables of graphs."""
    create_tables(tables.graph_nodes, tables.graph_edges)
