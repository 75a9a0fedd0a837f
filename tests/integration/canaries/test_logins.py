"""An authorization server that quotes what it was sent gives nothing away."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator

import pytest

from plait import OAuth, PlaitError, Toolbox
from plait.client import MemoryTokenStore
from plait.client.transports.auth.oauth_tokens import key_for
from plait.client.transports.auth.stores import Login
from tests.integration.canaries.mirror import Mirror
from tests.integration.canaries.search import canary, found_in, texts_of, texts_of_records

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


@pytest.fixture
def mirror() -> Generator[Mirror]:
    with Mirror() as server:
        server.authority = server.origin
        yield server


async def seen_of_a_refusal(auth: OAuth, url: str) -> list[str]:
    async with Toolbox({"shop": {"url": url, "auth": auth}}) as box:
        with pytest.raises(PlaitError) as caught:
            await box.tools()
        return [*texts_of(caught.value), repr(auth), repr(box), str(box.status().to_dict())]


@pytest.mark.parametrize("way", ["client_secret_basic", "client_secret_post"])
async def test_the_secret_of_a_client_stays_hidden(
    way: str, mirror: Mirror, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="plait")
    secret = canary()
    auth = OAuth(
        grant="client_credentials",
        client_id="robot",
        client_secret=secret,
        token_endpoint_auth_method=way,
        store=MemoryTokenStore(),
    )
    seen = await seen_of_a_refusal(auth, mirror.url)
    asked = [one for one in mirror.heard if one.path == "/token"]

    assert found_in((f"{one.headers} {one.body}" for one in asked), [secret])
    assert found_in([*seen, *texts_of_records(caplog.records)], [secret]) == []


async def test_a_refresh_token_that_is_refused_stays_hidden(
    mirror: Mirror, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="plait")
    access, refresh, client = canary(), canary(), canary()
    store = MemoryTokenStore()
    auth = OAuth(client_id="app", client_secret=client, store=store)
    key = key_for(auth, mirror.url)
    authority = {
        "issuer": mirror.origin,
        "authorization_endpoint": f"{mirror.origin}/authorize",
        "token_endpoint": f"{mirror.origin}/token",
        "response_types_supported": ["code"],
    }
    login = Login(
        key=key,
        access_token=access,
        refresh_token=refresh,
        expires_at=time.time() - 60,
        lifetime_seconds=3600,
        authorization_server=authority,
    )
    await store.save(login)
    seen = await seen_of_a_refusal(auth, mirror.url)
    asked = [one for one in mirror.heard if one.path == "/token"]

    assert found_in((one.body for one in asked), [refresh])
    assert "the login was not renewed" in caplog.text
    secrets = [access, refresh, client]
    assert found_in([*seen, repr(login), *texts_of_records(caplog.records)], secrets) == []
