"""What was acknowledged is there, whoever is killed and however many write."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from sqlalchemy import text

from plait.reasoning.storage.database import Database, database_from_text
from plait.reasoning.storage.sql import SqlStorage
from plait.reasoning.values import Session, Thought
from tests.nursery import python
from tests.servers import thought_writer

WRITES = 300


def start(database: str, session: str, way: str, count: int) -> subprocess.Popen[str]:
    """Start a process that writes thoughts."""
    command = [*python(), str(Path(thought_writer.__file__)), database, session, way]
    return subprocess.Popen([*command, str(count)], stdout=subprocess.PIPE, text=True)


def mcp_url(database: Database) -> str:
    if database.is_sqlite:
        return str(database)
    return database.url.set(drivername="postgresql").render_as_string(hide_password=False)


def thoughts_of(database: Database, session: str) -> list[Thought]:
    """Read a session with a store of its own."""

    async def read() -> list[Thought]:
        store = SqlStorage(database)
        found = await store.get_session_thoughts(session)
        await store.aclose()
        return list(found)

    return asyncio.run(read())


def begin(database: Database, session: str) -> None:
    async def write() -> None:
        store = SqlStorage(database)
        await store.open()
        await store.create_session(Session(id=session, mode="linear"))
        await store.aclose()

    asyncio.run(write())


def test_no_acknowledged_thought_is_lost_when_the_writer_is_killed(database: Database) -> None:
    session = f"killed on {database.url.get_backend_name()}"
    acknowledged: list[str] = []
    for goal, way in ((20, "tool"), (60, "tool"), (400, "store")):
        with start(mcp_url(database), session, way, 5000) as writer:
            assert writer.stdout is not None
            while len(acknowledged) < goal:
                acknowledged.append(writer.stdout.readline().strip())
            os.kill(writer.pid, signal.SIGKILL)
            # What it managed to say before it died counts as well.
            acknowledged += [line.strip() for line in writer.stdout if line.endswith("\n")]

    kept = thoughts_of(database, session)

    assert len(acknowledged) >= 400
    assert set(acknowledged) <= {thought.id for thought in kept}
    # One more may have been kept each time, and not been told.
    assert len(kept) <= len(acknowledged) + 3
    assert [thought.position for thought in kept] == [*range(1, len(kept) + 1)]


def test_two_processes_write_into_one_session_without_a_fault(database: Database) -> None:
    session = f"two writers on {database.url.get_backend_name()}"
    begin(database, session)

    writers = [start(mcp_url(database), session, "store", WRITES) for _ in range(2)]
    told = [writer.communicate(timeout=100)[0].split() for writer in writers]

    assert [writer.returncode for writer in writers] == [0, 0]
    kept = thoughts_of(database, session)
    assert {thought.id for thought in kept} == {*told[0], *told[1]}
    assert [thought.position for thought in kept] == [*range(1, 2 * WRITES + 1)]


def test_two_processes_reason_in_one_session_without_losing_a_step(database: Database) -> None:
    session = f"two reasoners on {database.url.get_backend_name()}"
    begin(database, session)

    writers = [start(mcp_url(database), session, "tool", 40) for _ in range(2)]
    told = [writer.communicate(timeout=100)[0].split() for writer in writers]

    assert [writer.returncode for writer in writers] == [0, 0]
    assert {one.id for one in thoughts_of(database, session)} == {*told[0], *told[1]}


@pytest.mark.anyio
async def test_a_step_in_a_long_session_reads_no_more_than_in_a_short_one(tmp_path: Path) -> None:
    store = SqlStorage(database_from_text(str(tmp_path / "reasoning.db")))
    await store.open()
    plans: list[str] = []
    async with store.engine.connect() as connection:
        for question in (
            (
                "SELECT * FROM thoughts WHERE session_id = 's' AND abandoned_by IS NULL "
                "ORDER BY position DESC LIMIT 30"
            ),
            "SELECT max(position) FROM thoughts WHERE session_id = 's'",
            (
                "SELECT * FROM thoughts WHERE session_id = 's' AND abandoned_by IS NULL "
                "AND fingerprint = 'f' ORDER BY position DESC LIMIT 1"
            ),
        ):
            rows = await connection.execute(text(f"EXPLAIN QUERY PLAN {question}"))
            plans += [str(row[-1]) for row in rows]
    await store.aclose()

    used = [re.findall(r"INDEX (\w+)", plan) for plan in plans]
    assert used == [
        ["ix_thoughts_live"],
        ["ix_thoughts_session_position"],
        ["ix_thoughts_fingerprint"],
    ], plans
