"""Signing in blocks no loop, and works from code that has none."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from plait import Toolbox
from plait.testing import oauth_server
from tests.integration.auth.helpers import Browser, config, signed_in

pytestmark = [pytest.mark.timeout(90)]


@pytest.mark.anyio
async def test_signing_in_renewing_and_stepping_up_never_block(tmp_path: Path) -> None:
    with oauth_server() as server:
        servers = config(server, tmp_path, on_redirect=Browser())
        with blockbuster_ctx():
            async with Toolbox(servers) as box:
                await box.call("shop", "whoami")
                server.end_access()
                await box.call("shop", "whoami")
                assert (await box.call("shop", "write_note", {"text": "x"})).text == "noted: x"

        assert server.counts["refresh_token"] == 1


def test_threads_without_a_loop_share_a_login(tmp_path: Path) -> None:
    with oauth_server() as server:
        asyncio.run(signed_in(server, tmp_path))
        boxes = [Toolbox(config(server, tmp_path)) for _ in range(3)]
        try:
            for box in boxes:
                box.tools_blocking()
            server.end_access()
            server.counts.clear()
            said = {box.call_blocking("shop", "whoami").text for box in boxes}
        finally:
            for box in boxes:
                box.close()

        assert said == {"client-1 with read"}
        assert server.counts["refresh_token"] == 1
