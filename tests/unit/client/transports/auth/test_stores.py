"""Places for logins: nothing is lost, nothing is mixed up, and garbage is survived."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait import ConfigError
from plait.client import FileTokenStore, KeyringTokenStore, MemoryTokenStore, TokenStore
from plait.client.transports.auth.stores import (
    Login,
    LoginKey,
    login_from_text,
    store_of,
    text_from_login,
    token_folder,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

KEY = LoginKey(resource="https://example.com/mcp", user="ann")
LOGIN = Login(
    key=KEY,
    access_token="secret-a",
    refresh_token="secret-r",
    scope="read",
    expires_at=1000.0,
    lifetime_seconds=3600.0,
    client={"client_id": "c", "client_secret": "secret-c"},
    authorization_server={"issuer": "https://auth.example.com"},
)

texts = st.text(max_size=20)
keys = st.builds(LoginKey, resource=texts, grant=texts, issuer=texts, client=texts, user=texts)
numbers = st.none() | st.floats(min_value=0, max_value=1e10)
logins = st.builds(
    Login,
    key=keys,
    access_token=st.none() | texts,
    refresh_token=st.none() | texts,
    scope=st.none() | texts,
    expires_at=numbers,
    lifetime_seconds=numbers,
    client=st.none() | st.dictionaries(texts, texts, max_size=3),
)


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TokenStore:
    return MemoryTokenStore() if request.param == "memory" else FileTokenStore(tmp_path)


@given(logins)
def test_a_login_is_read_as_it_was_written(login: Login) -> None:
    assert login_from_text(text_from_login(login), login.key) == login


@given(logins, keys)
def test_a_login_of_somebody_else_is_refused(login: Login, other: LoginKey) -> None:
    if other != login.key:
        with pytest.raises(ValueError, match="something else"):
            login_from_text(text_from_login(login), other)
        assert other.digest != login.key.digest


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_is_a_login_or_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        login_from_text(text, KEY)


@given(st.floats(1, 1e6), st.floats(0, 1e6))
def test_a_login_is_due_before_it_is_over_but_not_for_most_of_its_life(
    lifetime: float, age: float
) -> None:
    login = replace(LOGIN, expires_at=lifetime, lifetime_seconds=lifetime)

    assert login.is_due(age) or age < lifetime
    assert not login.is_due(lifetime * 0.7)
    assert login.is_due(lifetime - 0.2 * min(lifetime, 60))


def test_a_login_without_an_end_is_never_due() -> None:
    assert not replace(LOGIN, expires_at=None).is_due(1e12)


def test_a_login_shows_nothing_secret() -> None:
    assert "secret" not in repr(LOGIN)
    assert set(LOGIN.secrets) == {"secret-a", "secret-r", "secret-c"}


async def test_what_is_kept_is_there_until_it_is_forgotten(store: TokenStore) -> None:
    assert await store.load(KEY) is None
    await store.save(LOGIN)
    await store.save(replace(LOGIN, scope="write"))
    assert await store.load(KEY) == replace(LOGIN, scope="write")
    assert await store.load(replace(KEY, user="bob")) is None
    await store.forget(KEY)
    await store.forget(KEY)
    assert await store.load(KEY) is None


async def test_one_holds_the_lock_at_a_time(store: TokenStore) -> None:
    inside: list[int] = []

    async def hold() -> None:
        async with store.locked(KEY):
            inside.append(1)
            assert len(inside) == 1
            await asyncio.sleep(0)
            inside.pop()

    await asyncio.gather(*(hold() for _ in range(10)))


async def test_a_cancelled_holder_lets_go_of_the_lock(store: TokenStore) -> None:
    held = asyncio.Event()

    async def hold() -> None:
        async with store.locked(KEY):
            held.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    await held.wait()
    task.cancel()
    async with asyncio.timeout(5), store.locked(KEY):
        pass


async def test_a_killed_process_lets_go_of_the_lock(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from plait.client import FileTokenStore
from plait.client.transports.auth.stores import LoginKey

async def main():
    async with FileTokenStore(sys.argv[1]).locked(LoginKey(resource=sys.argv[2], user="ann")):
        print("held", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, tmp_path, KEY.resource, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    assert await child.stdout.readline() == b"held\n"
    waiting = asyncio.create_task(_take(FileTokenStore(tmp_path)))
    await asyncio.sleep(0)
    assert not waiting.done()
    child.kill()
    async with asyncio.timeout(30):
        await waiting
        await child.wait()


async def _take(store: FileTokenStore) -> None:
    async with store.locked(KEY):
        pass


WRONG = text_from_login(LOGIN).replace("1000.0", '"soon"')


@pytest.mark.parametrize(
    "garbage", ["", "{", "[]", '{"format": 1}', '{"format": 99}', "\0\0", WRONG]
)
async def test_garbage_is_set_aside_and_reported(
    garbage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = FileTokenStore(tmp_path)
    await store.save(LOGIN)
    store.path_of(KEY).write_text(garbage)

    with caplog.at_level(logging.WARNING, "plait"):
        assert await store.load(KEY) is None

    assert "is no login" in caplog.text
    assert store.path_of(KEY).with_suffix(".broken").read_text() == garbage
    await store.save(LOGIN)
    assert await store.load(KEY) == LOGIN


async def test_a_full_disk_is_a_clear_error_and_keeps_the_old_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileTokenStore(tmp_path)
    await store.save(LOGIN)

    def no_room(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(ConfigError, match=r"cannot be saved.*No space left"):
        await store.save(replace(LOGIN, access_token="new"))

    assert await store.load(KEY) == LOGIN
    assert files_in(tmp_path) == [store.path_of(KEY).name]


async def test_files_and_folders_are_for_their_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True, mode=0o755)
    store = FileTokenStore(folder)
    await store.save(LOGIN)

    assert folder.stat().st_mode & 0o777 == 0o700
    assert store.path_of(KEY).stat().st_mode & 0o777 == 0o600
    assert "example" not in store.path_of(KEY).name


def test_the_folder_is_named_by_the_environment(tmp_path: Path) -> None:
    assert token_folder({"PLAIT_TOKEN_DIR": "/x", "XDG_DATA_HOME": "/y"}) == Path("/x")
    assert token_folder({"XDG_DATA_HOME": "/y"}) == Path("/y/plait/tokens")
    assert token_folder({}) == Path.home() / ".local" / "share" / "plait" / "tokens"


async def test_a_machine_without_a_keyring_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import keyring
    from keyring.backends.fail import Keyring as NoKeyring

    monkeypatch.setattr("keyring.core._keyring_backend", NoKeyring())
    assert keyring.get_keyring().priority == 0
    with pytest.raises(ConfigError, match="keyring of this system"):
        await KeyringTokenStore().load(KEY)


async def test_a_missing_keyring_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match=r"plait\[keyring\]"):
        await KeyringTokenStore().load(KEY)


async def test_a_keyring_keeps_logins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from keyring.backend import KeyringBackend

    class Drawer(KeyringBackend):
        priority = 1  # pyright: ignore[reportAssignmentType]

        def __init__(self) -> None:
            self.kept: dict[tuple[str, str], str] = {}

        def get_password(self, service: str, username: str) -> str | None:
            return self.kept.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            self.kept[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            del self.kept[service, username]

    monkeypatch.setattr("keyring.core._keyring_backend", Drawer())
    monkeypatch.setenv("PLAIT_TOKEN_DIR", str(tmp_path))
    store = KeyringTokenStore()
    await store.save(LOGIN)
    async with store.locked(KEY):
        assert await store.load(KEY) == LOGIN
    await store.forget(KEY)
    await store.forget(KEY)
    assert await store.load(KEY) is None


def test_a_store_is_named_or_given() -> None:
    given = MemoryTokenStore()

    assert store_of(given) is given
    assert store_of("memory") is store_of("memory")
    assert isinstance(store_of("keyring"), KeyringTokenStore)
    assert isinstance(store_of("file"), FileTokenStore)
    with pytest.raises(ConfigError, match="int"):
        store_of(3)


def files_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]
