"""A variable that is not set is the problem of its own server."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from plait import ConfigError, MultiServerMCPClient, Toolbox
from plait.cli import main
from tests.nursery import stdio_config

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

BROKEN: dict[str, dict[str, Any]] = {
    "program": {"command": "server", "env": {"KEY": "${PLAIT_TEST_UNSET}"}},
    "address": {"url": "https://${PLAIT_TEST_UNSET}/mcp", "headers": {"a": "${PLAIT_TEST_UNSET}"}},
    "declared": {"type": "ws", "url": "${PLAIT_TEST_UNSET}", "connectTimeout": 3000},
}


def file_with(path: Path, **servers: object) -> Path:
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


@pytest.mark.parametrize("name", BROKEN)
async def test_an_unset_variable_is_the_problem_of_its_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    path = file_with(tmp_path / "mcp.json", good=stdio_config(), bad=BROKEN[name])
    async with MultiServerMCPClient(path) as client:
        before = client.status()["bad"]
        assert {tool.server for tool in await client.toolbox.tools()} == {"good"}
        assert await client.get_tools()
        with pytest.raises(ConfigError, match="PLAIT_TEST_UNSET is not set") as caught:
            await client.get_tools("bad")
        await client.toolbox.reconnect("bad")
        with pytest.raises(ConfigError, match="PLAIT_TEST_UNSET is not set"):
            await client.toolbox.call("bad", "tool")

    assert (before.state, str(before.error)) == ("failed", str(caught.value))
    assert {problem.code for problem in caught.value.problems} == {"unset_variable"}
    (warning,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert warning.startswith("going on without bad: ")
    assert "\n" not in warning


async def test_where_every_server_is_required_the_variable_must_be_set(tmp_path: Path) -> None:
    path = file_with(tmp_path / "mcp.json", good=stdio_config(), bad=BROKEN["program"])
    async with MultiServerMCPClient(path, on_connection_error="throw") as client:
        with pytest.raises(ConfigError, match="PLAIT_TEST_UNSET"):
            await client.get_tools()


def test_without_any_other_server_it_is_an_error_at_once() -> None:
    with pytest.raises(ConfigError, match="PLAIT_TEST_UNSET"):
        Toolbox({"one": BROKEN["program"], "two": BROKEN["address"]})


def test_another_mistake_beside_it_is_an_error_at_once() -> None:
    bad = {**BROKEN["program"], "args": 5}
    with pytest.raises(ConfigError, match="PLAIT_TEST_UNSET") as caught:
        Toolbox({"good": stdio_config(), "bad": bad})
    assert len(caught.value.problems) == 2


def test_the_doctor_examines_the_others(tmp_path: Path) -> None:
    path = file_with(tmp_path / "mcp.json", good=stdio_config(), bad=BROKEN["address"])
    result = CliRunner().invoke(main, ["--config", str(path), "doctor", "--json"])
    found = json.dumps(json.loads(result.stdout))
    assert "PLAIT_TEST_UNSET is not set" in found
    assert "connected in" in found or '"ready"' in found
