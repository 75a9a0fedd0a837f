"""Add positions, several graphs in a session, conclusions, token counts and sampling answers.

Existing rows get positions in the order of their times; the nodes of a session become one graph.
"""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_data = sa.JSON(none_as_null=True)

_DEFAULT_CONFIG = {"max_nodes": 100, "max_depth": 10, "default_k": 3, "prune_threshold": 0.3}


def upgrade() -> None:
    """Add the columns and tables, then fill them."""
    op.add_column("sessions", sa.Column("status", sa.String, nullable=False, server_default="open"))
    op.add_column("sessions", sa.Column("conclusion", _data))
    op.add_column("sessions", sa.Column("version", sa.Integer, nullable=False, server_default="1"))
    op.create_index("ix_sessions_updated_at", "sessions", ["updated_at"])
    for table in ("branches", "thoughts", "graph_nodes"):
        op.add_column(table, sa.Column("position", sa.Integer, nullable=False, server_default="0"))
    for table in ("thoughts", "graph_nodes", "graph_edges"):
        op.add_column(table, sa.Column("abandoned_by", sa.String))
    op.add_column(
        "thoughts", sa.Column("fingerprint", sa.String, nullable=False, server_default="")
    )
    for table in ("graph_nodes", "graph_edges"):
        op.add_column(table, sa.Column("graph_id", sa.String, nullable=False, server_default=""))
    for name, kind in (
        ("model", sa.String),
        ("input_tokens", sa.Integer),
        ("output_tokens", sa.Integer),
    ):
        op.add_column("invocations", sa.Column(name, kind))
    _create_tables()
    _fill()
    _create_indexes()


def _create_tables() -> None:
    op.create_table(
        "graphs",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column(
            "session_id",
            sa.String,
            sa.ForeignKey("sessions.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("problem", sa.Text),
        sa.Column("config", _data, nullable=False),
        sa.Column("created_at", sa.String, nullable=False),
    )
    op.create_table(
        "answers",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("answer", _data, nullable=False),
        sa.Column("created_at", sa.String, nullable=False),
    )
    op.create_table(
        "server_keys",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )


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
    op.execute(filled.bindparams(sa.bindparam("config", _DEFAULT_CONFIG, type_=_data)))
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
    op.create_index("ix_answers_created_at", "answers", ["created_at"])
