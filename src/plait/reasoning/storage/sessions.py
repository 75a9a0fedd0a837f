"""Sessions and thoughts in the database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, and_, func, select

from plait.reasoning.changes import Changes
from plait.reasoning.storage import tables
from plait.reasoning.storage.base import SqlBase
from plait.reasoning.storage.port import SessionLine
from plait.reasoning.storage.rows import reader
from plait.reasoning.values import Session, Thought, fingerprint

_thoughts = tables.thoughts
_nodes = tables.graph_nodes


class SessionRows(SqlBase):
    """The part of a store that keeps sessions and thoughts."""

    async def create_session(self, session: Session) -> None:
        """Add a session."""
        await self.write(Changes(session=session))

    async def get_session(self, key: str) -> Session | None:
        """Return a session."""
        return await self.read_id(Session, key)

    async def update_session(self, session: Session) -> None:
        """Replace a session that was read before."""
        await self.write(Changes(session=session))

    async def delete_session(self, key: str) -> bool:
        """Delete a session with everything in it."""
        return await self.delete_where(Session, tables.sessions.c.id == key) > 0

    async def list_sessions(
        self, *, limit: int = 50, offset: int = 0, status: str | None = None
    ) -> list[SessionLine]:
        """Return sessions, the one that changed last first."""
        table = tables.sessions
        mine = _thoughts.c.session_id == table.c.id
        live = and_(mine, _thoughts.c.abandoned_by.is_(None))
        count = select(func.count()).select_from(_thoughts).where(live).scalar_subquery()
        title = (
            select(_thoughts.c.content)
            .where(live)
            .order_by(_thoughts.c.position)
            .limit(1)
            .scalar_subquery()
        )
        root = (
            select(_nodes.c.content)
            .where(_nodes.c.session_id == table.c.id)
            .order_by(_nodes.c.position)
            .limit(1)
            .scalar_subquery()
        )
        statement = select(
            table, count.label("count"), func.coalesce(title, root, "").label("title")
        ).order_by(table.c.updated_at.desc(), table.c.id)
        if status is not None:
            statement = statement.where(table.c.status == status)
        async with self.engine.connect() as connection:
            rows = (await connection.execute(statement.limit(limit).offset(offset))).mappings()
            read = reader(Session)
            return [
                SessionLine(
                    session=read({str(key): row[key] for key in row}),
                    thoughts=row["count"],
                    title=" ".join(row["title"].split())[:80],
                )
                for row in rows
            ]

    async def search_thoughts(
        self, text: str, *, session_id: str | None = None, limit: int = 20
    ) -> list[Thought]:
        """Return thoughts that hold the text, in any case, newest first."""
        found = func.lower(_thoughts.c.content).contains(text.lower(), autoescape=True)
        statement = select(_thoughts).where(found)
        if session_id is not None:
            statement = statement.where(_thoughts.c.session_id == session_id)
        newest = statement.order_by(_thoughts.c.created_at.desc(), _thoughts.c.position.desc())
        return await self.read_many(Thought, newest.limit(limit))

    async def delete_sessions_before(self, time: str) -> int:
        """Delete sessions that have not changed since, and return how many."""
        return await self.delete_where(Session, tables.sessions.c.updated_at < time)

    async def create_thought(self, thought: Thought) -> None:
        """Add a thought."""
        await self.write(Changes(thoughts=(thought,)))

    async def get_thought(self, key: str) -> Thought | None:
        """Return a thought."""
        return await self.read_id(Thought, key)

    async def get_session_thoughts(
        self,
        session_id: str,
        *,
        abandoned: bool = False,
        limit: int | None = None,
        offset: int | None = None,
    ) -> list[Thought]:
        """Return the thoughts that count; with `abandoned`, those left behind as well."""
        statement = select(_thoughts).where(_thoughts.c.session_id == session_id)
        if not abandoned:
            statement = statement.where(_thoughts.c.abandoned_by.is_(None))
        ordered = statement.order_by(_thoughts.c.position).limit(limit).offset(offset)
        return await self.read_many(Thought, ordered)

    async def count_session_thoughts(self, session_id: str) -> int:
        """Return how many thoughts count."""
        live = _live_thoughts(session_id).with_only_columns(func.count())
        async with self.engine.connect() as connection:
            return int(await connection.scalar(live) or 0)

    async def get_recent_thoughts(self, session_id: str, limit: int) -> list[Thought]:
        """Return the last thoughts that count, oldest first."""
        newest = _live_thoughts(session_id).order_by(_thoughts.c.position.desc()).limit(limit)
        return [*reversed(await self.read_many(Thought, newest))]

    async def get_first_thought(self, session_id: str) -> Thought | None:
        """Return the thought the session began with."""
        return await self.read_one(
            Thought, _live_thoughts(session_id).order_by(_thoughts.c.position)
        )

    async def get_latest_thought(self, session_id: str) -> Thought | None:
        """Return the last thought that counts."""
        newest = _live_thoughts(session_id).order_by(_thoughts.c.position.desc())
        return await self.read_one(Thought, newest)

    async def get_same_thought(self, session_id: str, content: str) -> Thought | None:
        """Return the last thought that says the same but for case and spacing."""
        same = _live_thoughts(session_id).where(_thoughts.c.fingerprint == fingerprint(content))
        return await self.read_one(Thought, same.order_by(_thoughts.c.position.desc()))

    async def get_thought_chain(self, thought: Thought, limit: int) -> list[Thought]:
        """Return the ancestors of a thought, oldest first."""
        chain: list[Thought] = []
        parent = thought.parent_id
        while parent is not None and len(chain) < limit:
            found = await self.get_thought(parent)
            if found is None:
                break
            chain.insert(0, found)
            parent = found.parent_id
        return chain

    async def get_branch_thoughts(self, branch_id: str) -> list[Thought]:
        """Return the thoughts on a branch."""
        statement = select(_thoughts).where(_thoughts.c.branch_id == branch_id)
        return await self.read_many(Thought, statement.order_by(_thoughts.c.position))


def _live_thoughts(session_id: str) -> Select[Any]:
    mine = _thoughts.c.session_id == session_id
    return select(_thoughts).where(mine, _thoughts.c.abandoned_by.is_(None))
