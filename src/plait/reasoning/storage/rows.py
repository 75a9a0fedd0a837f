"""Values as rows, and rows as values: columns and fields have the same names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from sqlalchemy import Table

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
    kind: tuple(one.name for one in fields(kind)) for kind in TABLES
}


def row_from(value: Value) -> dict[str, Any]:
    """Write a value as a row of its table."""
    row = {name: getattr(value, name) for name in _NAMES[type(value)]}
    if isinstance(value, Thought):
        row["fingerprint"] = fingerprint(value.content)
    return row


def reader(kind: type[ValueT]) -> Callable[[Mapping[str, Any]], ValueT]:
    """Return what reads a row of the table of this kind."""
    names = _NAMES[kind]

    def read(row: Mapping[str, Any]) -> ValueT:
        return kind(**{name: row[name] for name in names})

    return read
