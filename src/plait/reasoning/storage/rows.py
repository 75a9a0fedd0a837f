"""Converts values to rows and back; columns and fields have the same names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from sqlalchemy import RowMapping, Table

from plait.reasoning.storage import tables
from plait.reasoning.values import (
    Branch,
    Checkpoint,
    CrossRef,
    Graph,
    GraphEdge,
    GraphNode,
    Invocation,
    Session,
    StateSnapshot,
    Thought,
    fingerprint,
)

Value = (
    Session
    | Thought
    | Branch
    | CrossRef
    | Checkpoint
    | StateSnapshot
    | Graph
    | GraphNode
    | GraphEdge
    | Invocation
)

ValueT = TypeVar("ValueT", bound=Value)

TABLES: Mapping[type[Value], Table] = {
    Session: tables.sessions,
    Thought: tables.thoughts,
    Branch: tables.branches,
    CrossRef: tables.cross_refs,
    Checkpoint: tables.checkpoints,
    StateSnapshot: tables.state_snapshots,
    Graph: tables.graphs,
    GraphNode: tables.graph_nodes,
    GraphEdge: tables.graph_edges,
    Invocation: tables.invocations,
}

_NAMES: Mapping[type[Value], Sequence[str]] = {
    kind: tuple(field.name for field in fields(kind)) for kind in TABLES
}


def row_from_value(value: Value) -> dict[str, Any]:
    """Return a value as a row of its table."""
    row = {name: getattr(value, name) for name in _NAMES[type(value)]}
    if isinstance(value, Thought):
        row["fingerprint"] = fingerprint(value.content)
    return row


def value_from_row(kind: type[ValueT], row: RowMapping) -> ValueT:
    """Return the value that a row of the table of this kind holds."""
    return kind(**{name: row[name] for name in _NAMES[kind]})
