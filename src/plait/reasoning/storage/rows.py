"""Converts values to rows and back; columns and fields have the same names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from sqlalchemy import RowMapping, Table

from plait.reasoning import values
from plait.reasoning.storage import tables

Value = (
    values.Session
    | values.Thought
    | values.Branch
    | values.CrossRef
    | values.Checkpoint
    | values.StateSnapshot
    | values.Graph
    | values.GraphNode
    | values.GraphEdge
    | values.Invocation
)

ValueT = TypeVar("ValueT", bound=Value)

TABLES: Mapping[type[Value], Table] = {
    values.Session: tables.sessions,
    values.Thought: tables.thoughts,
    values.Branch: tables.branches,
    values.CrossRef: tables.cross_refs,
    values.Checkpoint: tables.checkpoints,
    values.StateSnapshot: tables.state_snapshots,
    values.Graph: tables.graphs,
    values.GraphNode: tables.graph_nodes,
    values.GraphEdge: tables.graph_edges,
    values.Invocation: tables.invocations,
}

_NAMES: Mapping[type[Value], Sequence[str]] = {
    kind: tuple(field.name for field in fields(kind)) for kind in TABLES
}


def row_from_value(value: Value) -> dict[str, Any]:
    """Return a value as a row of its table."""
    row = {name: getattr(value, name) for name in _NAMES[type(value)]}
    if isinstance(value, values.Thought):
        row["fingerprint"] = values.fingerprint(value.content)
    return row


def value_from_row(kind: type[ValueT], row: RowMapping) -> ValueT:
    """Return the value that a row of the table of this kind holds."""
    return kind(**{name: row[name] for name in _NAMES[kind]})
