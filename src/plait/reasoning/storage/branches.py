"""Branches, how they relate, checkpoints and snapshots in the database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, select

from plait.reasoning.changes import Changes
from plait.reasoning.storage import tables
from plait.reasoning.storage.base import SqlBase
from plait.reasoning.values import Branch, Checkpoint, CrossRef, StateSnapshot


class BranchRows(SqlBase):
    """The part of a store that keeps branches and checkpoints."""

    async def create_branch(self, branch: Branch) -> None:
        """Add a branch."""
        await self.write(Changes(branches=(branch,)))

    async def get_branch(self, key: str) -> Branch | None:
        """Return a branch."""
        return await self.read_id(Branch, key)

    async def get_session_branches(self, session_id: str) -> list[Branch]:
        """Return the branches of a session."""
        table = tables.branches
        statement = select(table).where(table.c.session_id == session_id)
        return await self.read_many(Branch, statement.order_by(table.c.position))

    async def get_child_branches(self, parent_id: str) -> list[Branch]:
        """Return the children, the one of highest priority first."""
        table = tables.branches
        statement = select(table).where(table.c.parent_branch_id == parent_id)
        return await self.read_many(
            Branch, statement.order_by(table.c.priority.desc(), table.c.position)
        )

    async def update_branch(self, branch: Branch) -> None:
        """Replace a branch."""
        await self.write(Changes(branches=(branch,)))

    async def delete_branch(self, key: str) -> bool:
        """Delete a branch; its thoughts stay."""
        return await self.delete_where(Branch, tables.branches.c.id == key) > 0

    async def create_cross_ref(self, ref: CrossRef) -> None:
        """Relate two branches."""
        await self.write(Changes(cross_refs=(ref,)))

    async def get_session_cross_refs(self, session_id: str) -> list[CrossRef]:
        """Return how the branches of a session relate."""
        table = tables.cross_refs
        own = select(tables.branches.c.id).where(tables.branches.c.session_id == session_id)
        return await self._refs(table.c.from_branch_id.in_(own))

    async def get_cross_refs_from(self, branch_id: str) -> list[CrossRef]:
        """Return what a branch refers to."""
        return await self._refs(tables.cross_refs.c.from_branch_id == branch_id)

    async def get_cross_refs_to(self, branch_id: str) -> list[CrossRef]:
        """Return what refers to a branch."""
        return await self._refs(tables.cross_refs.c.to_branch_id == branch_id)

    async def _refs(self, where: ColumnElement[bool]) -> list[CrossRef]:
        table = tables.cross_refs
        ordered = select(table).where(where).order_by(table.c.created_at, table.c.id)
        return await self.read_many(CrossRef, ordered)

    async def delete_cross_ref(self, key: str) -> bool:
        """Take back how two branches relate."""
        return await self.delete_where(CrossRef, tables.cross_refs.c.id == key) > 0

    async def create_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Add a checkpoint."""
        await self.write(Changes(checkpoints=(checkpoint,)))

    async def get_checkpoint(self, key: str) -> Checkpoint | None:
        """Return a checkpoint."""
        return await self.read_id(Checkpoint, key)

    async def get_session_checkpoints(self, session_id: str) -> list[Checkpoint]:
        """Return the checkpoints of a session, newest first."""
        return await self._checkpoints(tables.checkpoints.c.session_id == session_id)

    async def get_branch_checkpoints(self, branch_id: str) -> list[Checkpoint]:
        """Return the checkpoints made on a branch, newest first."""
        return await self._checkpoints(tables.checkpoints.c.branch_id == branch_id)

    async def _checkpoints(self, where: ColumnElement[bool]) -> list[Checkpoint]:
        table = tables.checkpoints
        newest = select(table).where(where).order_by(table.c.created_at.desc(), table.c.id)
        return await self.read_many(Checkpoint, newest)

    async def delete_checkpoint(self, key: str) -> bool:
        """Delete a checkpoint."""
        return await self.delete_where(Checkpoint, tables.checkpoints.c.id == key) > 0

    async def create_snapshot(self, snapshot: StateSnapshot) -> None:
        """Add a snapshot."""
        await self.write(Changes(snapshots=(snapshot,)))

    async def get_snapshot(self, key: str) -> StateSnapshot | None:
        """Return a snapshot."""
        return await self.read_id(StateSnapshot, key)

    async def get_session_snapshots(self, session_id: str) -> list[StateSnapshot]:
        """Return the snapshots of a session, newest first."""
        return await self.read_many(StateSnapshot, _newest_snapshots(session_id))

    async def get_latest_snapshot(self, session_id: str) -> StateSnapshot | None:
        """Return the newest snapshot of a session."""
        return await self.read_one(StateSnapshot, _newest_snapshots(session_id))

    async def delete_snapshot(self, key: str) -> bool:
        """Delete a snapshot."""
        return await self.delete_where(StateSnapshot, tables.state_snapshots.c.id == key) > 0


def _newest_snapshots(session_id: str) -> Select[Any]:
    table = tables.state_snapshots
    mine = select(table).where(table.c.session_id == session_id)
    return mine.order_by(table.c.created_at.desc(), table.c.id)
