"""Branches and checkpoints as results show them."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from plait.reasoning.results import Listed, Result, Shown
from plait.reasoning.values import (
    Branch,
    BranchState,
    Checkpoint,
    branch_json,
    checkpoint_json,
)


class BranchShown(Shown):
    """A branch."""

    id: str
    session_id: str
    name: str
    parent_branch_id: str | None
    priority: float
    confidence: float
    state: BranchState
    created_at: str
    updated_at: str
    metadata: dict[str, Any] | None


class BranchResult(BranchShown, Result):
    """A branch as the whole result."""


class BranchList(Listed):
    """The branches of a session."""

    branches: list[BranchShown]


class CheckpointShown(Shown):
    """A checkpoint."""

    id: str
    session_id: str
    branch_id: str | None
    name: str
    description: str | None
    snapshot: dict[str, Any] = Field(description="The state that was kept.")
    created_at: str


class CheckpointResult(CheckpointShown, Result):
    """A checkpoint as the whole result."""


class CheckpointList(Listed):
    """The checkpoints of a session."""

    checkpoints: list[CheckpointShown]


def branch_shown(branch: Branch) -> BranchShown:
    """Show a branch in a list."""
    return BranchShown(**branch_json(branch))


def checkpoint_shown(checkpoint: Checkpoint) -> CheckpointShown:
    """Show a checkpoint in a list."""
    return CheckpointShown(**checkpoint_json(checkpoint))
