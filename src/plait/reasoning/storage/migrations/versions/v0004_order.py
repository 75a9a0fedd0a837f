"""Add positions, several graphs in a session, conclusions, token counts and sampling answers.

Existing rows get positions in the order of their times; the nodes of a session become one graph.
"""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from alembic import op

from plait.reasoning.storage.columns import DATA, key, owner, required

revision = "0004"
down_revision = "0003"

_DEFAULT_CONFIG = {"max_nodes": 100, "max_depth": 10, "default_k": 3, "prune_threshold": 0.3}


def upgrade() -> None:
    """Add the columns and tables, then fill them."""
    op.add_column("sessions", required("status", default="open"))
    op.add_column("sessions", sa.Column("conclusion", DATA))
    op.add_column("sessions", required("version", sa.Integer, "1"))
    op.create_index("ix_sessions_updated_at", "sessions", ["updated_at"])
    for table in ("branches", "thoughts", "graph_nodes"):
        op.add_column(table, required("position", sa.Integer, "0"))
    for table in ("thoughts", "graph_nodes", "graph_edges"):
        op.add_column(table, sa.Column("abandoned_by", sa.String))
    op.add_column("thoughts", required("fingerprint", default=""))
    for table in ("graph_nodes", "graph_edges"):
        op.add_column(table, required("graph_id", default=""))
    op.add_column("invocations", sa.Column("model", sa.String))
    for name in ("input_tokens", "output_tokens"):
        op.add_column("invocations", sa.Column(name, sa.Integer))
    _create_tables()
    _fill()
    _create_indexes()


def _create_tables() -> None:
    op.create_table(
        "graphs",
        key(),
        owner("session_id", "sessions.id", index=False),
        sa.Column("problem", sa.Text),
        required("config", DATA),
        required("created_at"),
    )
    op.create_table(
        "answers",
        key("run_id"),
        key("key"),
        required("answer", DATA),
        required("created_at", index=True),
    )
    op.create_table("server_keys", key("name"), required("value", sa.LargeBinary))


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
    op.execute(filled.bindparams(sa.bindparam("config", _DEFAULT_CONFIG, type_=DATA)))
    bind = op.get_bind()
    rows = bind.execute(sa.text("SELECT id, content FROM thoughts")).all()
    for identity, content in rows:
        folded = " ".join(content.casefold().split())
        bind.execute(
            sa.text("UPDATE thoughts SET fingerprint = :mark WHERE id = :id"),
            {"mark": hashlib.sha256(folded.encode()).hexdigest()[:32], "id": identity},
        )


def _create_indexes() -> None:
    op.drop_index("ix_thoughts_session_id", "thoughts")
    op.drop_index("ix_branches_session_id", "branches")
    op.create_index("ix_branches_session_position", "branches", ["session_id", "position"])
    op.create_index("ix_thoughts_session_position", "thoughts", ["session_id", "position"])
    op.create_index("ix_thoughts_live", "thoughts", ["session_id", "abandoned_by", "position"])
    # All four columns: with fewer, SQLite scans the whole session for the last thought.
    op.create_index(
        "ix_thoughts_fingerprint",
        "thoughts",
        ["session_id", "fingerprint", "abandoned_by", "position"],
    )
    op.create_index("ix_graphs_session", "graphs", ["session_id", "created_at"])
    op.create_index("ix_graph_nodes_graph", "graph_nodes", ["graph_id", "position"])
    op.create_index("ix_graph_edges_graph_id", "graph_edges", ["graph_id"])
