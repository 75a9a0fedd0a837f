"""Nothing that was handed out is ever shown, and nothing leaves the origin it was meant for."""

from __future__ import annotations

import logging

import pytest

from plait import PlaitError, Toolbox
from tests.integration.auth.helpers import Browser, Shop, whole_text

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(90)]

SECRET = "canary-5d41402abc4b"


async def life_of_a_login(shop: Shop) -> list[str]:
    """Sign in, step up, refresh and lose the login; return all that could be seen of it."""
    seen: list[str] = []
    auth = shop.auth(on_redirect=Browser())
    async with Toolbox({"shop": {"url": shop.server.url, "auth": auth}}) as box:
        await box.call("shop", "whoami")
        await box.call("shop", "write_note", {"text": "x"})
        shop.server.end_access()
        await box.call("shop", "whoami")
        seen += [repr(auth), str(box.status().to_dict()), repr(box)]
    shop.server.refuse_next(10)
    async with shop.box() as box:
        for _ in range(2):
            with pytest.raises(PlaitError) as caught:
                await box.call("shop", "whoami")
            seen += [whole_text(caught.value), str(caught.value.to_dict())]
            shop.server.revoke()
        seen += [str(box.status().to_dict()), repr(box.status())]
    return seen


async def test_tokens_and_codes_are_in_no_error_status_repr_or_log(
    shop: Shop, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    seen = [*await life_of_a_login(shop), caplog.text, *capfd.readouterr()]

    assert len(shop.server.issued) > 6
    assert "the login is refused" in "".join(seen)
    assert [secret for secret in shop.server.issued if secret in "\n".join(seen)] == []


async def test_a_server_that_quotes_the_token_gives_nothing_away(shop: Shop) -> None:
    shop.server.refuse_next(1000)
    async with shop.box(on_redirect=Browser()) as box:
        with pytest.raises(PlaitError) as caught:
            await box.tools()
        seen = whole_text(caught.value) + str(box.status().to_dict())

    assert "the credentials *** are not good enough" in seen
    assert [secret for secret in shop.server.issued if secret in seen] == []


async def test_a_wrong_client_secret_is_in_no_error_repr_or_log(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shop.server.add_client("robot", secret="right")
    robot = {"grant": "client_credentials", "client_id": "robot", "client_secret": SECRET}
    async with shop.box(**robot) as box:
        with pytest.raises(PlaitError, match="invalid_client") as caught:
            await box.tools()
        seen = [whole_text(caught.value), repr(box), str(box.status().to_dict())]

    assert SECRET not in "\n".join([*seen, str(caught.value.to_dict()), caplog.text])
