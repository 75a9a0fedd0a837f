"""The record of requests to models, answers that wait, and keys, in the database."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, func, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from plait.reasoning.changes import Changes
from plait.reasoning.storage import tables
from plait.reasoning.storage.base import SqlBase
from plait.reasoning.storage.port import Usage
from plait.reasoning.values import Invocation, now

_invocations = tables.invocations
_answers = tables.answers
_keys = tables.server_keys


class RecordRows(SqlBase):
    """The part of a store that keeps what is not reasoning itself."""

    async def log_invocation(self, invocation: Invocation) -> None:
        """Note a request to a model."""
        await self.write(Changes(invocations=(invocation,)))

    async def get_invocations(
        self, *, session_id: str | None = None, limit: int = 100
    ) -> list[Invocation]:
        """Return requests to models, newest first."""
        statement = select(_invocations)
        if session_id is not None:
            statement = statement.where(_invocations.c.session_id == session_id)
        newest = statement.order_by(_invocations.c.created_at.desc(), _invocations.c.id)
        return await self.read_many(Invocation, newest.limit(limit))

    async def get_usage(self, *, session_id: str | None = None) -> list[Usage]:
        """Return what calls took, by tool, backend, pipe and model."""
        table = _invocations
        groups = (table.c.tool_name, table.c.backend, table.c.pipe_name, table.c.model)
        statement = select(
            *groups,
            func.count(),
            func.count().filter(table.c.success.is_(False)),
            func.avg(table.c.latency_ms),
            func.coalesce(func.sum(table.c.input_tokens), 0),
            func.coalesce(func.sum(table.c.output_tokens), 0),
        )
        if session_id is not None:
            statement = statement.where(table.c.session_id == session_id)
        grouped = statement.group_by(*groups).order_by(*groups)
        async with self.engine.connect() as connection:
            rows = (await connection.execute(grouped)).all()
        return [
            Usage(
                tool_name=tool,
                backend=backend,
                pipe_name=pipe,
                model=model,
                requests=requests,
                failures=failures,
                average_latency_ms=None if latency is None else float(latency),
                input_tokens=int(taken),
                output_tokens=int(given),
            )
            for tool, backend, pipe, model, requests, failures, latency, taken, given in rows
        ]

    async def save_answer(self, run_id: str, key: str, answer: Mapping[str, Any]) -> None:
        """Keep what a client answered, until the call that asked is made again."""
        row = {"run_id": run_id, "key": key, "answer": dict(answer), "created_at": now()}
        async with self.writer.begin() as connection:
            await connection.execute(self._insert(_answers).values(row).on_conflict_do_nothing())

    async def get_answers(self, run_id: str) -> dict[str, Mapping[str, Any]]:
        """Return what was answered in a run so far."""
        async with self.engine.connect() as connection:
            mine = select(_answers.c.key, _answers.c.answer).where(_answers.c.run_id == run_id)
            rows = (await connection.execute(mine)).all()
        return {row.key: row.answer for row in rows}

    async def delete_answers(self, run_id: str, *, before: str) -> None:
        """Forget the answers of a run, and all that are older than a time."""
        gone = or_(_answers.c.run_id == run_id, _answers.c.created_at < before)
        async with self.writer.begin() as connection:
            await connection.execute(delete(_answers).where(gone))

    async def server_key(self, name: str) -> bytes:
        """Return 32 random bytes that all servers of this database share."""
        row = {"name": name, "value": secrets.token_bytes(32)}
        async with self.writer.begin() as connection:
            await connection.execute(self._insert(_keys).values(row).on_conflict_do_nothing())
            found = await connection.scalar(select(_keys.c.value).where(_keys.c.name == name))
        if found is None:
            raise LookupError(name)
        return bytes(found)

    def _insert(self, table: Any) -> Any:
        dialect = self.engine.dialect.name
        return (postgresql if dialect == "postgresql" else sqlite).insert(table)
