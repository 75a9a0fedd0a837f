"""What the commands of `plait reasoning` share: settings, the database, and how to open it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from plait.reasoning.backends.settings import ReasoningSettings, Wish
    from plait.reasoning.storage.engine import Database
    from plait.reasoning.storage.sql import SqlStorage
    from plait.reasoning.values import Session

Command = TypeVar("Command", bound=Callable[..., Any])


def db_option(command: Command) -> Command:
    """Add `--db`."""
    return click.option(
        "--db",
        metavar="PATH|URL",
        help="The database: a file, or postgresql://… [default: $DATABASE_PATH, else "
        "~/.local/share/plait/reasoning.db]",
    )(command)


def read_reasoning_settings(wish: Wish | None = None) -> ReasoningSettings:
    """Read the settings from the environment and from `.env` in the working directory."""
    from plait.reasoning.backends.settings import read_settings

    return read_settings(os.environ, dotenv=Path(".env"), wish=wish)


def chosen_database(db: str | None) -> Database:
    """Say which database the options and settings mean.

    Raises:
        ConfigError: The packages for it are not installed.
    """
    from plait.errors import ConfigError

    try:
        from plait.reasoning.serving.service import database_for
    except ImportError as error:
        raise ConfigError(
            "reasoning needs packages that are not installed: pip install 'plait[reasoning]'"
        ) from error
    return database_for(db, read_reasoning_settings())


@asynccontextmanager
async def opened_store(db: str | None) -> AsyncGenerator[SqlStorage]:
    """Open the store; one that is not there is not made by looking for something in it."""
    from plait.errors import ConfigError
    from plait.reasoning.storage.sql import SqlStorage

    database = chosen_database(db)
    if _is_missing(database):
        raise ConfigError(f"there is no database at {database}")
    store = SqlStorage(database)
    try:
        await store.open()
        yield store
    finally:
        await store.aclose()


def _is_missing(database: Database) -> bool:
    return database.is_sqlite and not Path(str(database)).exists()


async def session_named(store: SqlStorage, name: str) -> Session:
    """Find a session by its id or the beginning of it; `last` is the one that changed last.

    Raises:
        RefusedError: There is none, or more than one.
    """
    from plait.errors import RefusedError

    if (found := await store.get_session(name)) is not None:
        return found
    lines = await store.list_sessions(limit=1 if name == "last" else 10_000)
    fitting = [line.session for line in lines if name == "last" or line.session.id.startswith(name)]
    if len(fitting) != 1:
        many = f"{len(fitting)} sessions begin with" if fitting else "there is no session"
        raise RefusedError(f"{many} {name!r}; plait reasoning sessions lists them")
    return fitting[0]
