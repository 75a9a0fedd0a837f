"""Run the real program in a folder with an mcp.json."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from plait.testing import ServerProcess
from tests.nursery import entry, python

SHOP = str(Path(__file__).with_name("shop_server.py"))


@dataclass
class Plait:
    """The program, in a folder of its own."""

    folder: Path

    def configure(self, **servers: dict[str, Any]) -> None:
        (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PLAIT_", "XDG_")) and name not in {"NO_COLOR", "COLUMNS"}
        }
        return {**kept, "HOME": str(self.folder / "home"), "PLAIT_TRUST": "1"}

    def __call__(
        self, *arguments: str, stdin: str | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*python(), "-m", "plait.cli", *arguments],
            cwd=self.folder,
            env={**self.environment, **environment},
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def programs(self) -> Path:
        """Write `plait` into a folder: a program that need not import what is slow."""
        program = self.folder / "programs" / "plait"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec {shlex.join(python())} -m plait.cli "$@"\n')
        program.chmod(0o755)
        return program.parent

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "plait.cli", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def plait(tmp_path: Path) -> Plait:
    """The program, with no configuration yet."""
    (tmp_path / "home").mkdir()
    return Plait(tmp_path)


def shop(*flags: str, **environment: str) -> dict[str, Any]:
    """Return the configuration of the shop server."""
    return entry(SHOP, *flags, env=environment)


@pytest.fixture(scope="session")
def shop_url() -> Iterator[str]:
    """The shop server on HTTP, started once: most tests do not care how it is reached."""
    command = [*python(), SHOP, "--http", "{port}"]
    url = "http://127.0.0.1:{port}/mcp"
    with ServerProcess(command, url=url, ready="Uvicorn running on") as server:
        yield server.url


@pytest.fixture
def with_shop(plait: Plait, shop_url: str) -> Plait:
    """The program, with the shop server configured."""
    plait.configure(shop={"url": shop_url})
    return plait


ShopConfig = Callable[..., dict[str, Any]]


@pytest.fixture
def shop_config() -> ShopConfig:
    """Make configurations of the shop server."""
    return shop


@pytest.fixture
def time_config() -> dict[str, Any]:
    """The configuration of a server that others wrote."""
    return entry("-m", "mcp_server_time", "--local-timezone", "UTC")
