"""Which lists of the last time are used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plait.client.config.read import read_config
from plait.serve.snapshot import Snapshot
from plait.serve.upstream import Offer


@pytest.mark.anyio
@pytest.mark.parametrize(("mode", "uses_them"), [("block", False), ("off", True)])
async def test_lists_are_not_used_after_a_change_of_the_lockfile_that_hides_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, uses_them: bool
) -> None:
    monkeypatch.setenv("PLAIT_CACHE_DIR", str(tmp_path / "cache"))
    path, lockfile = tmp_path / "mcp.json", tmp_path / "tools.json"
    document = {"mcpServers": {"a": {"command": "a"}}, "lock": mode, "lockfile": str(lockfile)}
    path.write_text(json.dumps(document))
    config = read_config(path)
    before = Snapshot(config)
    before.save({"a": Offer(tools=[{"name": "t"}])})
    before.write()
    same = Snapshot(config).load()

    lockfile.write_text("{}")

    assert same.keys() == {"a"}
    assert bool(Snapshot(config).load()) is uses_them
