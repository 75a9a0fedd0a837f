"""The tables, as the newest migration leaves them."""

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


def _owner() -> ForeignKey:
    return ForeignKey("sessions.id", ondelete="CASCADE")


def _optional(target: str) -> ForeignKey:
    return ForeignKey(target, ondelete="SET NULL")


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
            # A session and its first branch are written together, and each names the other.
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
    Column("session_id", String, _owner(), nullable=False),
    Column("name", Text, nullable=False),
    Column("parent_branch_id", String, _optional("branches.id"), index=True),
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
    Column("session_id", String, _owner(), nullable=False),
    Column("content", Text, nullable=False),
    Column("confidence", Float, nullable=False, server_default="0.8"),
    Column("mode", String, nullable=False),
    Column("parent_id", String, _optional("thoughts.id"), index=True),
    Column("created_at", String, nullable=False),
    Column("metadata", _data),
    Column("branch_id", String, _optional("branches.id"), index=True),
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
    Column(
        "from_branch_id",
        String,
        ForeignKey("branches.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column(
        "to_branch_id",
        String,
        ForeignKey("branches.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column("ref_type", String, nullable=False),
    Column("reason", Text),
    Column("strength", Float, nullable=False, server_default="1.0"),
    Column("created_at", String, nullable=False),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("id", String, primary_key=True),
    Column("session_id", String, _owner(), nullable=False, index=True),
    Column("branch_id", String, _optional("branches.id"), index=True),
    Column("name", Text, nullable=False),
    Column("description", Text),
    Column("snapshot", _data, nullable=False),
    Column("created_at", String, nullable=False, index=True),
)

state_snapshots = Table(
    "state_snapshots",
    metadata,
    Column("id", String, primary_key=True),
    Column("session_id", String, _owner(), nullable=False, index=True),
    Column("snapshot_type", String, nullable=False, index=True),
    Column("state_data", _data, nullable=False),
    Column("parent_snapshot_id", String, _optional("state_snapshots.id"), index=True),
    Column("created_at", String, nullable=False),
    Column("description", Text),
)

graphs = Table(
    "graphs",
    metadata,
    Column("id", String, primary_key=True),
    Column("session_id", String, _owner(), nullable=False),
    Column("problem", Text),
    Column("config", _data, nullable=False),
    Column("created_at", String, nullable=False),
    Index("ix_graphs_session", "session_id", "created_at"),
)

graph_nodes = Table(
    "graph_nodes",
    metadata,
    Column("id", String, primary_key=True),
    Column("session_id", String, _owner(), nullable=False, index=True),
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
    Column("session_id", String, _owner(), nullable=False, index=True),
    Column(
        "from_node",
        String,
        ForeignKey("graph_nodes.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
    Column(
        "to_node",
        String,
        ForeignKey("graph_nodes.id", ondelete="CASCADE"),
        nullable=False,
        index=True,
    ),
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
    Column("session_id", String, _optional("sessions.id"), index=True),
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
