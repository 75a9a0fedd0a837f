"""The tables, as the latest migration leaves them."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()

_data = JSON(none_as_null=True)


def _required(name: str, target: str, *, index: bool = True) -> Column[str]:
    """Return a reference; the row is deleted with its target."""
    key = ForeignKey(target, ondelete="CASCADE")
    return Column(name, String, key, nullable=False, index=index)


def _optional(name: str, target: str) -> Column[str]:
    """Return a reference that becomes null when its target is deleted."""
    return Column(name, String, ForeignKey(target, ondelete="SET NULL"), index=True)


sessions = Table(
    "sessions",
    metadata,
    Column("id", String, primary_key=True),
    Column("mode", String, nullable=False),
    Column("created_at", String, nullable=False),
    Column("updated_at", String, nullable=False, index=True),
    Column("metadata", _data),
    Column(
        "active_branch_id",
        String,
        ForeignKey(
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
    Column("status", String, nullable=False, server_default="open"),
    Column("conclusion", _data),
    Column("version", Integer, nullable=False, server_default="1"),
)

branches = Table(
    "branches",
    metadata,
    Column("id", String, primary_key=True),
    _required("session_id", "sessions.id", index=False),
    Column("name", Text, nullable=False),
    _optional("parent_branch_id", "branches.id"),
    Column("priority", Float, nullable=False, server_default="1.0"),
    Column("confidence", Float, nullable=False, server_default="0.8"),
    Column("state", String, nullable=False, server_default="active", index=True),
    Column("created_at", String, nullable=False),
    Column("updated_at", String, nullable=False),
    Column("metadata", _data),
    Column("position", Integer, nullable=False, server_default="0"),
    Index("ix_branches_session_position", "session_id", "position"),
)

thoughts = Table(
    "thoughts",
    metadata,
    Column("id", String, primary_key=True),
    _required("session_id", "sessions.id", index=False),
    Column("content", Text, nullable=False),
    Column("confidence", Float, nullable=False, server_default="0.8"),
    Column("mode", String, nullable=False),
    _optional("parent_id", "thoughts.id"),
    Column("created_at", String, nullable=False),
    Column("metadata", _data),
    _optional("branch_id", "branches.id"),
    Column("position", Integer, nullable=False, server_default="0"),
    Column("abandoned_by", String),
    Column("fingerprint", String, nullable=False, server_default=""),
    Index("ix_thoughts_session_position", "session_id", "position"),
    Index("ix_thoughts_live", "session_id", "abandoned_by", "position"),
    Index("ix_thoughts_fingerprint", "session_id", "fingerprint", "abandoned_by", "position"),
)

cross_refs = Table(
    "cross_refs",
    metadata,
    Column("id", String, primary_key=True),
    _required("from_branch_id", "branches.id"),
    _required("to_branch_id", "branches.id"),
    Column("ref_type", String, nullable=False),
    Column("reason", Text),
    Column("strength", Float, nullable=False, server_default="1.0"),
    Column("created_at", String, nullable=False),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("id", String, primary_key=True),
    _required("session_id", "sessions.id"),
    _optional("branch_id", "branches.id"),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("snapshot", _data, nullable=False),
    Column("created_at", String, nullable=False, index=True),
)

state_snapshots = Table(
    "state_snapshots",
    metadata,
    Column("id", String, primary_key=True),
    _required("session_id", "sessions.id"),
    Column("snapshot_type", String, nullable=False, index=True),
    Column("state_data", _data, nullable=False),
    _optional("parent_snapshot_id", "state_snapshots.id"),
    Column("created_at", String, nullable=False),
    Column("description", Text),
)

graphs = Table(
    "graphs",
    metadata,
    Column("id", String, primary_key=True),
    _required("session_id", "sessions.id", index=False),
    Column("problem", Text),
    Column("config", _data, nullable=False),
    Column("created_at", String, nullable=False),
    Index("ix_graphs_session", "session_id", "created_at"),
)

graph_nodes = Table(
    "graph_nodes",
    metadata,
    Column("id", String, primary_key=True),
    _required("session_id", "sessions.id"),
    Column("content", Text, nullable=False),
    Column("node_type", String, nullable=False, server_default="thought", index=True),
    Column("score", Float),
    Column("depth", Integer, nullable=False, server_default="0"),
    Column("is_terminal", Boolean, nullable=False, server_default="0", index=True),
    Column("is_root", Boolean, nullable=False, server_default="0"),
    Column("is_active", Boolean, nullable=False, server_default="1", index=True),
    Column("created_at", String, nullable=False),
    Column("metadata", _data),
    Column("graph_id", String, nullable=False, server_default=""),
    Column("position", Integer, nullable=False, server_default="0"),
    Column("abandoned_by", String),
    Index("ix_graph_nodes_graph", "graph_id", "position"),
)

graph_edges = Table(
    "graph_edges",
    metadata,
    Column("id", String, primary_key=True),
    _required("session_id", "sessions.id"),
    _required("from_node", "graph_nodes.id"),
    _required("to_node", "graph_nodes.id"),
    Column("edge_type", String, nullable=False, server_default="generates", index=True),
    Column("weight", Float, nullable=False, server_default="1.0"),
    Column("created_at", String, nullable=False),
    Column("metadata", _data),
    Column("graph_id", String, nullable=False, server_default="", index=True),
    Column("abandoned_by", String),
)

invocations = Table(
    "invocations",
    metadata,
    Column("id", String, primary_key=True),
    _optional("session_id", "sessions.id"),
    Column("tool_name", String, nullable=False),
    Column("input", _data, nullable=False),
    Column("output", _data),
    Column("pipe_name", String),
    Column("latency_ms", Integer),
    Column("success", Boolean, nullable=False, server_default="1"),
    Column("error", Text),
    Column("created_at", String, nullable=False, index=True),
    Column("model", String),
    Column("input_tokens", Integer),
    Column("output_tokens", Integer),
    Column("backend", String),
)

answers = Table(
    "answers",
    metadata,
    Column("run_id", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("answer", _data, nullable=False),
    Column("created_at", String, nullable=False, index=True),
)

server_keys = Table(
    "server_keys",
    metadata,
    Column("name", String, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
