"""A database of any released version becomes one of today, with everything in it."""

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
from plait.reasoning.storage.database import VERSIONS, database_from_text, make_engine, migrate
from plait.reasoning.storage.sql import SqlStorage
from plait.reasoning.storage.tables import metadata

pytestmark = pytest.mark.anyio

FIRST_RELEASE = (
    "ALTER TABLE branches DROP COLUMN is_judged",
    "ALTER TABLE thoughts DROP COLUMN is_judged",
    "UPDATE alembic_version SET version_num = '0006'",
)
"""What makes a database of 0.1.0 of one of today."""


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Name an empty database of each kind."""
    if request.param == "sqlite":
        return str(tmp_path_factory.mktemp("reasoning") / "reasoning.db")
    return request.getfixturevalue("postgres_database")


async def run_in(store: SqlStorage, *statements: str) -> None:
    async with store.writer.begin() as connection:
        for statement in statements:
            await connection.execute(text(statement))


async def test_a_database_of_the_first_release_is_brought_up_to_date(address: str) -> None:
    database = database_from_text(address)
    store = SqlStorage(database)
    await store.open()
    reasoner = Reasoner(store, HostCompleter())
    added = result_data(await reasoner.call("reasoning_linear", {"content": "One"}))
    await run_in(store, *FIRST_RELEASE)
    assert await migrate(store.engine) == ("0006", VERSIONS[-1])
    await store.aclose()

    store = SqlStorage(database)
    await store.open()
    (thought,) = await store.get_session_thoughts(added["session_id"])
    await store.aclose()

    assert (thought.content, thought.is_judged) == ("One", True)


@pytest.mark.parametrize("is_old", [False, True], ids=["new", "old"])
async def test_the_migrations_make_the_tables_that_are_used(address: str, is_old: bool) -> None:
    store = SqlStorage(database_from_text(address))
    await store.open()
    if is_old:
        await run_in(store, *FIRST_RELEASE)
        await migrate(store.engine)

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

    async with store.engine.connect() as connection:
        there = await connection.run_sync(look)
    await store.aclose()

    assert there == {
        name: {column.name for column in table.columns}
        | {str(index.name) for index in table.indexes}
        | {f"{[key.parent.name]} -> {key.column.table.name}" for key in table.foreign_keys}
        for name, table in metadata.tables.items()
    }


@pytest.mark.parametrize("version", ["0005", "9999"])
async def test_a_database_of_an_unknown_version_is_left_alone(address: str, version: str) -> None:
    store = SqlStorage(database_from_text(address))
    await store.open()
    await run_in(store, f"UPDATE alembic_version SET version_num = '{version}'")

    with pytest.raises(ConfigError, match=f"{version} .*: use the plait that made it"):
        await store.open()

    await store.aclose()


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
