"""The tables, as the latest migration leaves them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from plait.reasoning.storage.columns import DATA, key, owner, reference, required

metadata = sa.MetaData()


def _table(name: str, *columns: sa.Column[Any] | sa.Index) -> sa.Table:
    return sa.Table(name, metadata, key(), *columns)


sessions = _table(
    "sessions",
    required("mode"),
    required("created_at"),
    required("updated_at", index=True),
    sa.Column("metadata", DATA),
    sa.Column(
        "active_branch_id",
        sa.String,
        sa.ForeignKey(
            "branches.id",
            ondelete="SET NULL",
            name="fk_sessions_active_branch",
            use_alter=True,
            # A session and its first branch are written together, and refer to each other.
            deferrable=True,
            initially="DEFERRED",
        ),
        index=True,
    ),
    required("status", default="open"),
    sa.Column("conclusion", DATA),
    required("version", sa.Integer, "1"),
)

branches = _table(
    "branches",
    owner("session_id", "sessions.id", index=False),
    required("name", sa.Text),
    reference("parent_branch_id", "branches.id"),
    required("priority", sa.Float, "1.0"),
    required("confidence", sa.Float, "0.8"),
    required("state", default="active", index=True),
    required("created_at"),
    required("updated_at"),
    sa.Column("metadata", DATA),
    required("position", sa.Integer, "0"),
    sa.Index("ix_branches_session_position", "session_id", "position"),
)

thoughts = _table(
    "thoughts",
    owner("session_id", "sessions.id", index=False),
    required("content", sa.Text),
    required("confidence", sa.Float, "0.8"),
    required("mode"),
    reference("parent_id", "thoughts.id"),
    required("created_at"),
    sa.Column("metadata", DATA),
    reference("branch_id", "branches.id"),
    required("position", sa.Integer, "0"),
    sa.Column("abandoned_by", sa.String),
    required("fingerprint", default=""),
    sa.Index("ix_thoughts_session_position", "session_id", "position"),
    sa.Index("ix_thoughts_live", "session_id", "abandoned_by", "position"),
    sa.Index("ix_thoughts_fingerprint", "session_id", "fingerprint", "abandoned_by", "position"),
)

cross_refs = _table(
    "cross_refs",
    owner("from_branch_id", "branches.id"),
    owner("to_branch_id", "branches.id"),
    required("ref_type"),
    sa.Column("reason", sa.Text),
    required("strength", sa.Float, "1.0"),
    required("created_at"),
)

checkpoints = _table(
    "checkpoints",
    owner("session_id", "sessions.id"),
    reference("branch_id", "branches.id"),
    required("name", sa.Text),
    sa.Column("description", sa.Text),
    required("snapshot", DATA),
    required("created_at", index=True),
)

state_snapshots = _table(
    "state_snapshots",
    owner("session_id", "sessions.id"),
    required("snapshot_type", index=True),
    required("state_data", DATA),
    reference("parent_snapshot_id", "state_snapshots.id"),
    required("created_at"),
    sa.Column("description", sa.Text),
)

graphs = _table(
    "graphs",
    owner("session_id", "sessions.id", index=False),
    sa.Column("problem", sa.Text),
    required("config", DATA),
    required("created_at"),
    sa.Index("ix_graphs_session", "session_id", "created_at"),
)

graph_nodes = _table(
    "graph_nodes",
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
    required("graph_id", default=""),
    required("position", sa.Integer, "0"),
    sa.Column("abandoned_by", sa.String),
    sa.Index("ix_graph_nodes_graph", "graph_id", "position"),
)

graph_edges = _table(
    "graph_edges",
    owner("session_id", "sessions.id"),
    owner("from_node", "graph_nodes.id"),
    owner("to_node", "graph_nodes.id"),
    required("edge_type", default="generates", index=True),
    required("weight", sa.Float, "1.0"),
    required("created_at"),
    sa.Column("metadata", DATA),
    required("graph_id", default="", index=True),
    sa.Column("abandoned_by", sa.String),
)

invocations = _table(
    "invocations",
    reference("session_id", "sessions.id"),
    required("tool_name"),
    required("input", DATA),
    sa.Column("output", DATA),
    sa.Column("pipe_name", sa.String),
    sa.Column("latency_ms", sa.Integer),
    required("success", sa.Boolean, "1"),
    sa.Column("error", sa.Text),
    required("created_at", index=True),
    sa.Column("model", sa.String),
    sa.Column("input_tokens", sa.Integer),
    sa.Column("output_tokens", sa.Integer),
    sa.Column("backend", sa.String),
)

answers = sa.Table(
    "answers",
    metadata,
    key("run_id"),
    key("key"),
    required("answer", DATA),
    required("created_at", index=True),
)

server_keys = sa.Table("server_keys", metadata, key("name"), required("value", sa.LargeBinary))
