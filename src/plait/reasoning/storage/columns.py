"""Columns that the tables and their migrations share; earlier migrations depend on each detail."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, Column, ForeignKey, String
from sqlalchemy.types import TypeEngine

DATA = JSON(none_as_null=True)


def key(name: str = "id") -> Column[str]:
    """Return a primary key."""
    return Column(name, String, primary_key=True)


def required(
    name: str,
    kind: type[TypeEngine[Any]] | TypeEngine[Any] = String,
    default: str | None = None,
    *,
    index: bool = False,
) -> Column[Any]:
    """Return a column that is never null."""
    return Column(name, kind, nullable=False, server_default=default, index=index)


def owner(name: str, target: str, *, index: bool = True) -> Column[str]:
    """Return a reference; the row is deleted with its target."""
    reference = ForeignKey(target, ondelete="CASCADE")
    return Column(name, String, reference, nullable=False, index=index)


def reference(name: str, target: str) -> Column[str]:
    """Return a reference that becomes null when its target is deleted."""
    return Column(name, String, ForeignKey(target, ondelete="SET NULL"), index=True)
