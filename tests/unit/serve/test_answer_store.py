"""Which answers of a session are stored for the next process."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer

from plait.client.config.read import ClientConfig, read_config
from plait.serve.answer_store import MAX_CLIENTS, AnswerStore, Deciding
from plait.serve.configuration import ServedConfiguration
from plait.serve.first_answers import Conversation, declaration, fingerprint, read_answers
from plait.serve.session import ClientSession
from plait.serve.snapshot import Snapshot
from plait.serve.upstream import Upstream
from plait.testing import eventually

pytestmark = pytest.mark.anyio

HELLO: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}}
DECLARED = str(declaration("initialize", HELLO))
LISTS = {"tools/list", "prompts/list", "resources/list", "resources/templates/list"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known."""
    monkeypatch.setenv("PLAIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def configured(instructions: str = "buy", **servers: object) -> ClientConfig:
    shop = MCPServer("shop", instructions=instructions)

    @shop.tool()
    def price() -> str:
        """Return the price."""
        return "5"

    return read_config({"shop": {"server": shop}, **servers})


@asynccontextmanager
async def opened(config: ClientConfig) -> AsyncGenerator[ClientSession]:
    served = ServedConfiguration(lambda: config, traces=False)
    session = ClientSession("client", served.open_upstream)
    async with served.running(), session.open():
        yield session


def store_of(session: ClientSession, folder: Path, *secrets: str) -> AnswerStore:
    config = str(folder / "mcp.json")
    deciding = Deciding([config], fingerprint([config]), secrets)
    return AnswerStore(session, Conversation(folder), deciding)


def stored_files(folder: Path) -> list[Path]:
    return [*folder.glob("*.txt")]


async def shake_hands(session: ClientSession, **more: object) -> None:
    await session.answer(1, "initialize", {**HELLO, **more})
    await all_listed(session)


async def all_listed(session: ClientSession) -> None:
    upstream = await session.upstream()
    await eventually(lambda: not any(upstream.unlisted(kind) for kind in ("tools", "prompts")))
    await eventually(
        lambda: not any(upstream.unlisted(kind) for kind in ("resources", "resourceTemplates"))
    )


async def test_the_stored_answers_are_those_of_the_session(tmp_path: Path) -> None:
    async with opened(configured()) as session:
        store = store_of(session, tmp_path)
        await store.store()
        before = read_answers(tmp_path, DECLARED)
        await shake_hands(session, clientInfo={"name": "n", "version": "1"})
        await store.store()
        stored = read_answers(tmp_path, DECLARED)

    assert not before
    assert stored.keys() == {"initialize", "ping", *LISTS}
    assert b"shop__price" in stored["tools/list"]
    assert b'"instructions":"# shop\\n\\nbuy"' in stored["initialize"]


async def test_the_answers_of_the_modern_era_are_stored(tmp_path: Path) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"_meta": {**meta, "progressToken": 1}}
    async with opened(configured()) as session:
        await session.answer(1, "tools/list", params)
        await all_listed(session)
        listed = await session.answer(2, "tools/list", params)
        await store_of(session, tmp_path).store()
        stored = read_answers(tmp_path, str(declaration("tools/list", params)))

    assert listed["resultType"] == "complete"
    assert stored.keys() == {"server/discover", *LISTS}
    assert b'"resultType":"complete"' in stored["tools/list"]


async def test_changed_instructions_are_known_the_next_time() -> None:
    config = configured("sell")
    for text, known in (("buy", configured("buy")), ("sell", config)):
        async with opened(known) as session:
            await shake_hands(session)
            upstream = await session.upstream()

            async def is_open(upstream: Upstream = upstream, text: str = text) -> bool:
                return await upstream.instructions() == f"# shop\n\n{text}"

            await eventually(is_open)
    offer = Snapshot(config, "server", "roots").load()["shop"]

    assert offer.instructions == "sell"


async def test_a_list_without_a_server_that_has_not_listed_yet_is_not_stored(
    tmp_path: Path,
) -> None:
    silent = {"command": "sleep", "args": ["60"]}
    async with opened(configured(silent=silent)) as session:
        await session.answer(1, "initialize", HELLO)
        await store_of(session, tmp_path).store()

    assert read_answers(tmp_path, DECLARED).keys() == {"initialize", "ping"}


async def test_answers_with_a_secret_are_not_stored_and_those_before_are_removed(
    tmp_path: Path,
) -> None:
    async with opened(configured()) as session:
        await shake_hands(session)
        await store_of(session, tmp_path).store()
        before = read_answers(tmp_path, DECLARED)
        await store_of(session, tmp_path, "p").store()

    assert before
    assert not stored_files(tmp_path)


async def test_answers_are_not_stored_for_a_configuration_that_this_process_has_not_read(
    tmp_path: Path,
) -> None:
    async with opened(configured()) as session:
        await shake_hands(session)
        store = store_of(session, tmp_path)
        (tmp_path / "mcp.json").write_text("{}")
        await store.store()

    assert not stored_files(tmp_path)


async def test_a_client_that_says_late_what_it_can_do_has_no_stored_answers(
    tmp_path: Path,
) -> None:
    async with opened(configured()) as session:
        await session.answer(1, "tools/list", {})  # connects without knowing that
        await shake_hands(session)
        await store_of(session, tmp_path).store()

    assert not stored_files(tmp_path)


async def test_answers_are_stored_again_only_when_they_have_changed(tmp_path: Path) -> None:
    async with opened(configured()) as session:
        await shake_hands(session)
        store = store_of(session, tmp_path)
        await store.store()
        (stored,) = stored_files(tmp_path)
        stored.unlink()
        await store.store()
        again = stored.exists()
        upstream = await session.upstream()
        upstream.changes += 1
        await store.store()
        same = stored.exists()

    assert not again
    assert not same


async def test_answers_are_kept_for_a_bounded_number_of_clients(tmp_path: Path) -> None:
    others = [tmp_path / f"{number}.txt" for number in range(MAX_CLIENTS + 3)]
    for number, path in enumerate(others):
        path.touch()
        os.utime(path, (number, number))
    async with opened(configured()) as session:
        await shake_hands(session)
        await store_of(session, tmp_path).store()

    assert read_answers(tmp_path, DECLARED)
    assert len(stored_files(tmp_path)) == MAX_CLIENTS
    assert not any(path.exists() for path in others[:4])
