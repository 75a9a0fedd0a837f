"""Add positions, several graphs in a session, conclusions, token counts and sampling answers.

Existing rows get positions in the order of their times; the nodes of a session become one graph.
"""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from alembic import op

from plait.reasoning.storage import tables
from plait.reasoning.storage.migrations import add_columns, add_indexes, create_tables

revision = "0004"
down_revision = "0003"

_DEFAULT_CONFIG = {"max_nodes": 100, "max_depth": 10, "default_k": 3, "prune_threshold": 0.3}


def upgrade() -> None:
    """Add the columns and tables, then fill them."""
    add_columns(revision)
    create_tables(tables.graphs, tables.answers, tables.server_keys)
    _fill()
    op.drop_index("ix_thoughts_session_id", "thoughts")
    op.drop_index("ix_branches_session_id", "branches")
    add_indexes(revision)


def _fill() -> None:
    for table in ("branches", "thoughts", "graph_nodes"):
        op.execute(
            f"UPDATE {table} SET position = ranked.place FROM ("  # noqa: S608 - our own names
            "SELECT id, row_number() OVER (PARTITION BY session_id ORDER BY created_at, id) "
            f"AS place FROM {table}) AS ranked WHERE ranked.id = {table}.id"
        )
    op.execute("UPDATE graph_nodes SET graph_id = session_id")
    op.execute("UPDATE graph_edges SET graph_id = session_id")
    filled = sa.text(
        "INSERT INTO graphs (id, session_id, config, created_at) "
        "SELECT session_id, session_id, :config, min(created_at) "
        "FROM graph_nodes GROUP BY session_id"
    )
    op.execute(filled.bindparams(sa.bindparam("config", _DEFAULT_CONFIG, type_=tables.DATA)))
    bind = op.get_bind()
    rows = bind.execute(sa.text("SELECT id, content FROM thoughts")).all()
    for identity, content in rows:
        folded = " ".join(content.casefold().split())
        bind.execute(
            sa.text("UPDATE thoughts SET fingerprint = :mark WHERE id = :id"),
            {"mark": hashlib.sha256(folded.encode()).hexdigest()[:32], "id": identity},
        )
