"""A reasoner over a fresh file, with replies that a test writes down."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from plait.reasoning.backends.port import HostCompleter, Script, ScriptedCompleter
from plait.reasoning.reasoner import Reasoner
from plait.reasoning.results import result_data
from plait.reasoning.storage.database import database_from_text
from plait.reasoning.storage.sql import SqlStorage


class Desk:
    """Calls tools by their short names, and returns their results as plain data."""

    def __init__(self, store: SqlStorage) -> None:
        self.store = store
        self.completer = ScriptedCompleter({})
        self.reasoner = Reasoner(store, HostCompleter())

    def script(self, script: Script) -> None:
        """Let a model answer from now on."""
        self.completer = ScriptedCompleter(script)
        self.reasoner = Reasoner(self.store, self.completer)

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return result_data(await self.reasoner.call(f"reasoning_{tool}", arguments))


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the tables once; tests get copies."""
    path = tmp_path_factory.mktemp("reasoning") / "reasoning.db"

    async def make() -> None:
        store = SqlStorage(database_from_text(str(path)))
        await store.open()
        await store.aclose()

    asyncio.run(make())
    return path


@pytest.fixture
async def desk(tmp_path: Path, empty_database: Path) -> AsyncIterator[Desk]:
    """Sit down at an empty desk without a model."""
    path = tmp_path / "reasoning.db"
    shutil.copy(empty_database, path)
    store = SqlStorage(database_from_text(str(path)))
    await store.open()
    yield Desk(store)
    await store.aclose()
