"""One server with a ledger for all tests of policies, and one policy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from plait.testing import ServerProcess
from tests.nursery import python

PROGRAM = str(Path(__file__).parents[2] / "servers" / "guarded.py")

POLICY = """
{
  // The first rule that fits decides.
  "default": "ask",
  "hide_denied": false,
  "rules": [
    {"tool": "files/write", "when": {"path": "/etc/*"}, "do": "deny"},
    {"tool": "files/write", "when": {"path": "/tmp/*"}, "do": "allow"},
    {"server": "bank", "annotation": "not read-only", "do": "deny", "reason": "it moves money"},
    {"tool": "erase_*", "do": "deny"},
    {"annotation": "read-only", "do": "allow"},
  ],
}
"""

ALLOWED = [
    ("files", "read", {"path": "a"}),
    ("files", "write", {"path": "/tmp/b"}),
    ("bank", "read", {"path": "c"}),
]
ASKED = [
    ("files", "write", {"path": "/home/d"}),
    ("files", "touch", {"path": "e"}),
    ("files", "write", {"path": "/tmp/../home/f"}),
]
DENIED = [
    ("files", "write", {"path": "/etc/g"}),
    ("files", "write", {"path": "/tmp/..//etc/h"}),
    ("bank", "pay", {"amount": 5}),
    ("files", "erase_all", {}),
]
CALLS = [*ALLOWED, *ASKED, *DENIED]


def lines(calls: list[tuple[str, str, dict[str, Any]]]) -> list[str]:
    """Return what the ledger says after these calls."""
    return [" ".join([tool, *map(str, arguments.values())]) for _, tool, arguments in calls]


@dataclass
class Guarded:
    """The server, reached under two names, and the policy in a file."""

    url: str
    file: Path
    folder: Path

    @property
    def config(self) -> dict[str, Any]:
        return {
            "mcpServers": {"files": {"url": self.url}, "bank": {"url": self.url}},
            "policy": str(self.folder / "policy.json"),
            "toolNamePrefix": True,
        }

    def with_policy(self, policy: Any) -> dict[str, Any]:
        """Return the configuration with another policy."""
        return {**self.config, "policy": policy}

    def ledger(self) -> list[str]:
        """Return the calls that reached the server."""
        return self.file.read_text().splitlines()

    def write(self) -> Path:
        """Write the configuration, and return its path."""
        path = self.folder / "mcp.json"
        path.write_text(json.dumps({**self.config, "policy": "policy.json"}))
        return path


@pytest.fixture(scope="session")
def running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    ledger = tmp_path_factory.mktemp("guarded") / "ledger"
    with ServerProcess([*python(), PROGRAM, str(ledger)]) as server:
        yield server.url, ledger


@pytest.fixture
def guarded(running_server: tuple[str, Path], tmp_path: Path) -> Guarded:
    """The server, with an empty ledger."""
    url, ledger = running_server
    ledger.write_text("")
    (tmp_path / "policy.json").write_text(POLICY)
    return Guarded(url, ledger, tmp_path)
