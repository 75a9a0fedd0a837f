"""A database of any earlier version becomes one of today, with everything in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Connection, inspect, text

from plait.cli import main
from plait.errors import ConfigError
from plait.reasoning.backends.port import HostCompleter
from plait.reasoning.reasoner import Reasoner
from plait.reasoning.results import result_data
from plait.reasoning.storage.engine import (
    VERSIONS,
    WRITES,
    database_from_text,
    make_engine,
    migrate,
)
from plait.reasoning.storage.sql import SqlStorage
from plait.reasoning.storage.tables import metadata
from plait.reasoning.values import StateSnapshot, fingerprint

pytestmark = pytest.mark.anyio

OLD_ROWS = {
    "0001": (
        (
            "INSERT INTO sessions (id, mode, created_at, updated_at, metadata) "
            "VALUES ('s', 'linear', '2026-01-01', '2026-01-02', NULL)"
        ),
        (
            "INSERT INTO thoughts (id, session_id, content, mode, parent_id, created_at) "
            "VALUES ('t1', 's', 'One', 'linear', NULL, '2026-01-01')"
        ),
        (
            "INSERT INTO thoughts (id, session_id, content, mode, parent_id, created_at) "
            "VALUES ('t2', 's', 'Two', 'linear', 't1', '2026-01-01')"
        ),
    ),
    "0002": (
        (
            "INSERT INTO branches (id, session_id, name, created_at, updated_at) "
            "VALUES ('b', 's', 'Root', '2026-01-01', '2026-01-01')"
        ),
        "UPDATE sessions SET active_branch_id = 'b'",
        (
            "INSERT INTO checkpoints VALUES "
            """('c', 's', NULL, 'old', NULL, '{"thoughts": [], "branches": []}', '2026-01-01')"""
        ),
    ),
    "0003": (
        (
            "INSERT INTO graph_nodes (id, session_id, content, is_root, created_at) "
            "VALUES ('n1', 's', 'root', '1', '2026-01-01')"
        ),
        (
            "INSERT INTO graph_nodes (id, session_id, content, depth, score, created_at) "
            "VALUES ('n2', 's', 'leaf', 1, 0.5, '2026-01-02')"
        ),
        (
            "INSERT INTO graph_edges (id, session_id, from_node, to_node, created_at) "
            "VALUES ('e', 's', 'n1', 'n2', '2026-01-02')"
        ),
    ),
    "0004": (
        "UPDATE branches SET position = 1",
        f"UPDATE thoughts SET position = 1, fingerprint = '{fingerprint('One')}' WHERE id = 't1'",
        f"UPDATE thoughts SET position = 2, fingerprint = '{fingerprint('Two')}' WHERE id = 't2'",
        "UPDATE graph_nodes SET graph_id = 's', position = 1 WHERE id = 'n1'",
        "UPDATE graph_nodes SET graph_id = 's', position = 2 WHERE id = 'n2'",
        "UPDATE graph_edges SET graph_id = 's'",
        (
            "INSERT INTO graphs (id, session_id, config, created_at) "
            """VALUES ('s', 's', '{"max_nodes"\\: 100}', '2026-01-01')"""
        ),
        (
            "INSERT INTO invocations (id, session_id, tool_name, input, pipe_name, created_at) "
            "VALUES ('i', 's', 'reasoning_linear', '{}', 'linear', '2026-01-01')"
        ),
    ),
    "0006": (),
    "0005": (
        (
            "INSERT INTO branches "
            "(id, session_id, name, parent_branch_id, position, created_at, updated_at) "
            "VALUES ('b2', 's', 'Side', 'b', 2, '2026-01-01', '2026-01-01')"
        ),
        (
            "INSERT INTO cross_refs (id, from_branch_id, to_branch_id, ref_type, created_at) "
            "VALUES ('x', 'b2', 'b', 'extends', '2026-01-01')"
        ),
        (
            "INSERT INTO state_snapshots (id, session_id, snapshot_type, state_data, created_at) "
            """VALUES ('p', 's', 'full', '{"x"\\: 1}', '2026-01-01')"""
        ),
        "UPDATE thoughts SET parent_id = NULL WHERE id = 't2'",
    ),
}


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name an empty database of each kind."""
    if request.param == "sqlite":
        return str(tmp_path_factory.mktemp("reasoning") / "reasoning.db")
    return request.getfixturevalue("postgres_database")


@pytest.mark.parametrize("version", VERSIONS[:-1])
async def test_an_old_database_is_brought_up_to_date(address: str, version: str) -> None:
    engine = make_engine(database_from_text(address))
    written = min(version, "0005")  # the last one whose columns have their first names
    assert await migrate(engine, to=written) == (None, written)
    done = VERSIONS[: VERSIONS.index(version) + 1]
    async with engine.execution_options(**{WRITES: True}).begin() as connection:
        for step in done:
            for row in OLD_ROWS[step]:
                await connection.execute(text(row))
    assert await migrate(engine, to=version) == (written, version)
    await engine.dispose()

    store = SqlStorage(database_from_text(address))
    await store.open()

    reasoner = Reasoner(store, HostCompleter())
    added = result_data(
        await reasoner.call("reasoning_linear", {"content": "Three", "session_id": "s"})
    )
    thoughts = await store.get_session_thoughts("s")
    assert [(one.id, one.position) for one in thoughts] == [
        ("t1", 1),
        ("t2", 2),
        (added["thought_id"], 3),
    ]
    again = await store.get_same_thought("s", "ONE")
    assert again is not None
    assert again.id == "t1"
    if "0005" in done:
        side, two = await store.get_branch("b2"), await store.get_thought("t2")
        assert side is not None
        assert side.parent_branch_id == "b"
        assert two is not None
        assert two.parent_id == "t1"
        (ref,) = await store.get_session_cross_refs("s")
        assert (ref.from_branch_id, ref.to_branch_id) == ("b2", "b")
        snapshot = await store.get(StateSnapshot, "p")
        assert snapshot is not None
        assert snapshot.state_data == {"x": 1}
    if "0002" in done:
        checkpoint, graph = await store.get_checkpoint("c"), await store.get_graph("s")
        assert checkpoint is not None
        assert checkpoint.position == 1
        assert (graph.position if graph else None) == (1 if "0003" in done else None)
        point = await reasoner.call(
            "reasoning_backtrack", {"checkpoint_id": "c", "thought": "afresh"}
        )
        assert result_data(point)["checkpoint_restored"] == "c"
        left = await store.get_session_thoughts("s")
        assert [one.content for one in left] == ["afresh"]
    if "0003" in done:
        nodes = await store.get_session_graph_nodes("s", abandoned=True)
        assert [(one.id, one.graph_id, one.position) for one in nodes] == [
            ("n1", "s", 1),
            ("n2", "s", 2),
        ]
        graph = await store.get_graph("s")
        assert graph is not None
        assert graph.config["max_nodes"] == 100
    if "0004" in done:
        used = await store.get_usage(session_id="s")
        assert ("linear", None) in [(one.pipe_name, one.backend) for one in used]
    await store.aclose()


async def test_the_migrations_make_the_tables_that_are_used(address: str) -> None:
    engine = make_engine(database_from_text(address))
    await migrate(engine)

    def look(connection: Connection) -> dict[str, set[str]]:
        found = inspect(connection)
        names = [name for name in found.get_table_names() if name != "alembic_version"]
        return {
            name: {column["name"] for column in found.get_columns(name)}
            | {str(index["name"]) for index in found.get_indexes(name)}
            | {
                f"{key['constrained_columns']} -> {key['referred_table']}"
                for key in found.get_foreign_keys(name)
            }
            for name in names
        }

    async with engine.connect() as connection:
        there = await connection.run_sync(look)
    await engine.dispose()

    assert there == {
        name: {column.name for column in table.columns}
        | {str(index.name) for index in table.indexes}
        | {f"{[key.parent.name]} -> {key.column.table.name}" for key in table.foreign_keys}
        for name, table in metadata.tables.items()
    }


async def test_a_database_of_a_newer_version_is_left_alone(address: str) -> None:
    engine = make_engine(database_from_text(address))
    await migrate(engine)
    async with engine.execution_options(**{WRITES: True}).begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    with pytest.raises(ConfigError, match="newer plait"):
        await migrate(engine)

    await engine.dispose()


async def test_a_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "reasoning.db"
    store = SqlStorage(database_from_text(str(path)))
    await store.open()

    assert _modes(path.parent) == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700
    await store.aclose()


def _modes(folder: Path) -> set[int]:
    return {found.stat().st_mode & 0o777 for found in folder.iterdir()}


async def test_columns_have_the_names_of_the_contract(address: str) -> None:
    engine = make_engine(database_from_text(address))
    await migrate(engine)

    def columns(connection: Connection) -> dict[str, set[str]]:
        found = inspect(connection)
        return {name: {c["name"] for c in found.get_columns(name)} for name in CONTRACT}

    async with engine.connect() as connection:
        there = await connection.run_sync(columns)
    await engine.dispose()

    for name, names in CONTRACT.items():
        assert set(names.split()) <= there[name]


CONTRACT = {
    "sessions": "id mode created_at updated_at metadata active_branch_id",
    "thoughts": ("id session_id content confidence mode parent_id branch_id created_at metadata"),
    "branches": (
        "id session_id name parent_id state confidence priority created_at updated_at metadata"
    ),
    "cross_refs": "id from_branch to_branch ref_type reason strength created_at",
    "checkpoints": "id session_id branch_id name description snapshot created_at",
    "state_snapshots": "id session_id parent_id snapshot_type description data created_at",
    "graph_nodes": (
        "id graph_id session_id content node_type score depth is_active is_terminal created_at "
        "metadata"
    ),
    "graph_edges": "id graph_id from_node to_node edge_type weight created_at metadata",
    "invocations": (
        "id session_id tool_name input output pipe_name latency_ms success error created_at"
    ),
}
"""The columns that the contract of the original server lists."""


def test_the_command_creates_a_missing_schema(postgres_database: str) -> None:
    separator = "&" if "?" in postgres_database else "?"
    database = f"{postgres_database}{separator}schema=notes"

    for said in ("upgraded from nothing", "is up to date"):
        done = CliRunner().invoke(main, ["reasoning", "migrate", "--db", database])

        assert done.exit_code == 0, done.output
        assert said in done.stderr
