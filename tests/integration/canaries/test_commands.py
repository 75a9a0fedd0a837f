"""No command prints a credential, however much it is asked to say."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from plait.testing import free_port
from tests.integration.canaries.mirror import Mirror
from tests.integration.canaries.search import canary, found_in
from tests.integration.canaries.test_processes import telling
from tests.nursery import python

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

COMMANDS = [
    ("servers", "--json"),
    ("call", "mirror", "count", "count=1", "-vv"),
    ("call", "program", "tell", "-vv"),
    ("call", "robot", "count", "count=1", "-vv"),
    ("doctor", "-v"),
]


@pytest.fixture
def mirror() -> Generator[Mirror]:
    with Mirror() as server:
        server.mode, server.status = "status", 500
        yield server


async def run(folder: Path, *arguments: str) -> tuple[str, str]:
    """Run the program with its log turned on."""
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith("XDG_")},
        "HOME": str(folder),
        "PLAIT_DEBUG": "*",
        "PLAIT_TRUST": "1",
    }
    done = await asyncio.create_subprocess_exec(
        *(*python(), "-m", "plait.cli", *arguments),
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await done.communicate()
    return out.decode(), err.decode()


def configure(folder: Path, servers: dict[str, Any]) -> None:
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


async def test_no_command_prints_a_secret(mirror: Mirror, tmp_path: Path) -> None:
    header, key, token, user, client = (canary() for _ in range(5))
    user = user.replace("/+", "-")
    with Mirror(authority="here", token_status=400) as authority:
        authority.authority = authority.origin
        configure(
            tmp_path,
            {
                "mirror": {
                    "url": f"{mirror.url.replace('://', f'://ann:{user}@')}?token={user}",
                    "headers": {"Authorization": f"Bearer {header}", "X-Team": header},
                    "protocol": "legacy",
                },
                "program": telling("exit", "--token", token, env={"TEAM": key}),
                "robot": {
                    "url": authority.url,
                    "auth": {
                        "type": "oauth",
                        "grant": "client_credentials",
                        "client_id": "robot",
                        "client_secret": client,
                    },
                },
                "nobody": {
                    "url": f"http://127.0.0.1:{free_port()}/mcp?key={user}",
                    "headers": {"X-Key": header},
                },
            },
        )
        printed = [await run(tmp_path, *command) for command in COMMANDS]
        assert any(one.path == "/token" for one in authority.heard)

    shown = [
        f"$ {command}\n{out}\n{err}" for command, (out, err) in zip(COMMANDS, printed, strict=True)
    ]
    assert all(out + err for out, err in printed)
    assert found_in(shown, [header, key, token, user, client]) == []
