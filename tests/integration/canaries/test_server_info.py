"""A server that reports a secret as its name does not get it into the status."""

from __future__ import annotations

import pytest

from plait import Toolbox
from tests.servers.scripted_http import Reply, scripted_http

pytestmark = pytest.mark.anyio

SECRET = "canary-5d41402abc4b"


async def _answer(reply: Reply) -> None:
    reply.json(reply.response())


async def test_a_secret_in_the_name_of_a_server_is_not_in_its_status() -> None:
    async with scripted_http(_answer, era="legacy") as server:
        server.handshake_fields = {"serverInfo": {"name": f"shop of {SECRET}", "version": SECRET}}
        headers = {"Authorization": f"Bearer {SECRET}"}
        async with Toolbox({"shop": {"url": server.url, "headers": headers}}) as box:
            ready = await box.ready()
            status = box.status()

    assert status["shop"].server_info == {"name": "shop of ***", "version": "***"}
    assert SECRET not in f"{ready.to_dict()} {status.to_dict()} {status!r}"
