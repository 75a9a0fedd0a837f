"""Sessions can be read where nothing can be written, and the log tells what models were asked."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from plait.errors import BackendError, ConfigError
from plait.reasoning.backends.http import OpenAICompatibleCompleter, RetryPolicy
from plait.reasoning.backends.port import Prompt
from plait.reasoning.backends.settings import ReasoningSettings
from plait.reasoning.serving.changes import session_uri
from plait.reasoning.serving.service import log_to_stderr
from plait.reasoning.storage.database import database_from_text
from plait.reasoning.storage.sql import SqlStorage
from tests.unit.reasoning.conftest import Desk

pytestmark = pytest.mark.anyio


async def test_a_database_that_cannot_be_written_is_read(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk("linear", content="kept", session_id="s")
    await desk.store.aclose()
    path = tmp_path / "copy ü.db"
    shutil.copy(tmp_path / "reasoning.db", path)
    monkeypatch.setattr(os, "access", lambda *_arguments, **_options: False)

    store = SqlStorage(database_from_text(str(path)))
    await store.open()
    (thought,) = await store.get_session_thoughts("s")
    with pytest.raises(OperationalError, match="readonly"):
        await store.delete_session("s")
    await store.aclose()

    assert thought.content == "kept"


async def test_an_older_database_that_cannot_be_written_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = database_from_text(str(tmp_path / "old.db"))
    old = SqlStorage(database)
    await old.open()
    async with old.writer.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '0006'"))
    await old.aclose()
    monkeypatch.setattr(os, "access", lambda *_arguments, **_options: False)

    store = SqlStorage(database)
    with pytest.raises(ConfigError, match="plait reasoning migrate"):
        await store.open()
    await store.aclose()


async def test_attempts_and_their_failures_are_logged_without_the_key(
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = ReasoningSettings(log_level="debug", log_format="json")
    log_to_stderr(settings.log_level, settings.log_format)
    retry = RetryPolicy(timeout_seconds=5, max_retries=1, first_delay_seconds=0)
    completer = OpenAICompatibleCompleter(
        "http://127.0.0.1:9/v1", model="m", name="ollama", key="sk-very-secret", retry=retry
    )
    prompt = Prompt(pipe="p", system="s", user="my plan", temperature=0.0, max_tokens=5)

    with pytest.raises(BackendError, match="ollama"):
        await completer.complete(prompt)

    await completer.aclose()
    logging.getLogger("plait.reasoning").handlers.clear()
    text = capsys.readouterr().err
    lines = [json.loads(line) for line in text.splitlines()]
    failed = [one for one in lines if one["level"] == "warning"]
    assert [(one["attempt"], one["backend"]) for one in failed] == [(1, "ollama"), (2, "ollama")]
    assert "sk-very-secret" not in text
    assert "my plan" not in text


def test_the_uri_of_a_session_is_encoded() -> None:
    assert session_uri("a/b ü") == "reasoning://sessions/a%2Fb%20%C3%BC"
