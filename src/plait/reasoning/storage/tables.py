"""The tables, as a new database gets them.

An older database is brought to them by `migrations`.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import TypeEngine

metadata = sa.MetaData()
DATA = sa.JSON(none_as_null=True)


def _key(name: str = "id") -> sa.Column[str]:
    return sa.Column(name, sa.String, primary_key=True)


def _required(
    name: str,
    kind: type[TypeEngine[Any]] | TypeEngine[Any] = sa.String,
    default: str | None = None,
    *,
    index: bool = False,
) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, server_default=default, index=index)


def _owner(name: str, target: str, *, index: bool = True) -> sa.Column[str]:
    """Return a reference; the row is deleted with its target."""
    reference = sa.ForeignKey(target, ondelete="CASCADE")
    return sa.Column(name, sa.String, reference, nullable=False, index=index)


def _reference(name: str, target: str, /, **options: Any) -> sa.Column[str]:
    """Return a reference that becomes null when its target is deleted."""
    reference = sa.ForeignKey(target, ondelete="SET NULL", **options)
    return sa.Column(name, sa.String, reference, index=True)


def _field(name: str, column: sa.Column[Any]) -> sa.Column[Any]:
    """Return a column whose field has another name."""
    column.key = name
    return column


def _table(name: str, *items: sa.Column[Any] | sa.Index) -> sa.Table:
    return sa.Table(name, metadata, _key(), *items)


sessions = _table(
    "sessions",
    _required("mode"),
    _required("created_at"),
    _required("updated_at"),
    sa.Column("metadata", DATA),
    _reference(
        "active_branch_id",
        "branches.id",
        name="fk_sessions_active_branch",
        use_alter=True,
        # A session and its first branch are written together, and refer to each other.
        deferrable=True,
        initially="DEFERRED",
    ),
    _required("status", default="open"),
    sa.Column("conclusion", DATA),
    _required("version", sa.Integer, "1"),
    sa.Index("ix_sessions_updated_at", "updated_at"),
)

branches = _table(
    "branches",
    _owner("session_id", "sessions.id", index=False),
    _required("name", sa.Text),
    _field("parent_branch_id", _reference("parent_id", "branches.id")),
    _required("priority", sa.Float, "1.0"),
    _required("confidence", sa.Float, "0.8"),
    _required("state", default="active", index=True),
    _required("created_at"),
    _required("updated_at"),
    sa.Column("metadata", DATA),
    _required("position", sa.Integer, "0"),
    sa.Index("ix_branches_session_position", "session_id", "position"),
    _required("is_judged", sa.Boolean, "1"),
)

thoughts = _table(
    "thoughts",
    _owner("session_id", "sessions.id", index=False),
    _required("content", sa.Text),
    _required("confidence", sa.Float, "0.8"),
    _required("mode"),
    _reference("parent_id", "thoughts.id"),
    _required("created_at"),
    sa.Column("metadata", DATA),
    _reference("branch_id", "branches.id"),
    _required("position", sa.Integer, "0"),
    sa.Column("abandoned_by", sa.String),
    _required("fingerprint", default=""),
    sa.Index("ix_thoughts_session_position", "session_id", "position"),
    sa.Index("ix_thoughts_live", "session_id", "abandoned_by", "position"),
    # All four columns: with fewer, SQLite scans the whole session for the last thought.
    sa.Index("ix_thoughts_fingerprint", "session_id", "fingerprint", "abandoned_by", "position"),
    _required("is_judged", sa.Boolean, "1"),
)

cross_refs = _table(
    "cross_refs",
    _field("from_branch_id", _owner("from_branch", "branches.id")),
    _field("to_branch_id", _owner("to_branch", "branches.id")),
    _required("ref_type"),
    sa.Column("reason", sa.Text),
    _required("strength", sa.Float, "1.0"),
    _required("created_at"),
)

checkpoints = _table(
    "checkpoints",
    _owner("session_id", "sessions.id"),
    _reference("branch_id", "branches.id"),
    _required("name", sa.Text),
    sa.Column("description", sa.Text),
    _required("snapshot", DATA),
    _required("created_at", index=True),
    _required("position", sa.Integer, "0"),
)

state_snapshots = _table(
    "state_snapshots",
    _owner("session_id", "sessions.id"),
    _required("snapshot_type", index=True),
    _field("state_data", _required("data", DATA)),
    _field("parent_snapshot_id", _reference("parent_id", "state_snapshots.id")),
    _required("created_at"),
    sa.Column("description", sa.Text),
)

graphs = _table(
    "graphs",
    _owner("session_id", "sessions.id", index=False),
    sa.Column("problem", sa.Text),
    _required("config", DATA),
    _required("created_at"),
    sa.Index("ix_graphs_session", "session_id", "created_at"),
    _required("position", sa.Integer, "0"),
)

graph_nodes = _table(
    "graph_nodes",
    _owner("session_id", "sessions.id"),
    _required("content", sa.Text),
    _required("node_type", default="thought", index=True),
    sa.Column("score", sa.Float),
    _required("depth", sa.Integer, "0"),
    _required("is_terminal", sa.Boolean, "0", index=True),
    _required("is_root", sa.Boolean, "0"),
    _required("is_active", sa.Boolean, "1", index=True),
    _required("created_at"),
    sa.Column("metadata", DATA),
    _required("position", sa.Integer, "0"),
    sa.Column("abandoned_by", sa.String),
    _required("graph_id", default=""),
    sa.Index("ix_graph_nodes_graph", "graph_id", "position"),
)

graph_edges = _table(
    "graph_edges",
    _owner("session_id", "sessions.id"),
    _owner("from_node", "graph_nodes.id"),
    _owner("to_node", "graph_nodes.id"),
    _required("edge_type", default="generates", index=True),
    _required("weight", sa.Float, "1.0"),
    _required("created_at"),
    sa.Column("metadata", DATA),
    sa.Column("abandoned_by", sa.String),
    _required("graph_id", default=""),
    sa.Index("ix_graph_edges_graph_id", "graph_id"),
)

invocations = _table(
    "invocations",
    _reference("session_id", "sessions.id"),
    _required("tool_name"),
    _required("input", DATA),
    sa.Column("output", DATA),
    sa.Column("pipe_name", sa.String),
    sa.Column("latency_ms", sa.Integer),
    _required("success", sa.Boolean, "1"),
    sa.Column("error", sa.Text),
    _required("created_at", index=True),
    sa.Column("model", sa.String),
    sa.Column("input_tokens", sa.Integer),
    sa.Column("output_tokens", sa.Integer),
    sa.Column("backend", sa.String),
)

answers = sa.Table(
    "answers",
    metadata,
    _key("run_id"),
    _key("key"),
    _required("answer", DATA),
    _required("created_at", index=True),
)

server_keys = sa.Table("server_keys", metadata, _key("name"), _required("value", sa.LargeBinary))
