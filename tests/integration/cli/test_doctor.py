"""`plait doctor` against real servers, well and unwell."""

import json
from typing import Any

import pytest

from plait.cli.diagnosis import examine_servers
from plait.client.config.read import read_config
from plait.client.toolbox import Toolbox
from tests.nursery import entry
from tests.servers.scripted_http import Reply, scripted_http

from .conftest import Plait, ShopConfig


def test_each_server_has_its_findings_and_fixes(
    plait: Plait, shop_config: ShopConfig, time_config: dict[str, Any]
) -> None:
    plait.configure(
        time=time_config,
        noisy=shop_config("--noise"),
        crashing=shop_config("--crash"),
        missing={"command": "no-such-program"},
        down={"url": "http://127.0.0.1:9/mcp"},
    )

    done = plait("doctor", "--json")

    assert done.returncode == 3, done.stderr
    assert done.stderr == ""
    report = json.loads(done.stdout)
    assert report["ok"] is False
    found = {
        (finding["server"], finding["level"], finding["code"]) for finding in report["findings"]
    }
    assert {
        ("time", "ok", "ready"),
        ("time", "ok", "latency"),
        ("noisy", "warn", "stdout_noise"),
        ("noisy", "ok", "stderr"),
        ("crashing", "error", "start_failed"),
        ("missing", "error", "command_not_found"),
    } <= found
    assert found & {("down", "error", "refused"), ("down", "error", "unreachable")}
    assert all(
        finding["fix"] for finding in report["findings"] if finding["level"] in {"warn", "error"}
    )
    crash = next(finding for finding in report["findings"] if finding["code"] == "start_failed")
    assert "KeyError: 'SHOP_TOKEN'" in crash["message"]
    assert len(report["servers"][0]["round_trips_seconds"]) == 5


def test_for_a_person_it_is_one_section_per_server(
    plait: Plait, time_config: dict[str, Any]
) -> None:
    plait.configure(time=time_config)

    done = plait("doctor")

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("time  stdio · mcp-time")
    assert lines[1].startswith("  ✓ connected")
    assert lines[2].startswith("  ✓ responds in ")
    assert "  ✓ schemas fit every provider without loss" in lines
    assert any(line.startswith("  ✓ offers 2 tools, about ") for line in lines)
    assert lines[-1] == "1 of 1 server ready; nothing to fix"


def test_a_slip_in_the_configuration_is_a_warning(
    plait: Plait, time_config: dict[str, Any]
) -> None:
    plait.configure(time={**time_config, "comand": "x"})

    report = json.loads(plait("doctor", "--json").stdout)

    warning = next(finding for finding in report["findings"] if finding["level"] == "warn")
    assert (warning["server"], warning["code"]) == ("time", "unknown_key")
    assert "command" in warning["fix"]


def test_tools_and_options_are_checked_against_what_the_servers_really_list(
    plait: Plait, shop_url: str
) -> None:
    document = {
        "mcpServers": {
            "shop": {"url": shop_url, "exclude": ["pay", "serch"]},
            "store": {"url": shop_url, "include": ["add", "search"]},
        },
        "toolOverrides": {"ad": "Adds."},
    }
    (plait.folder / "mcp.json").write_text(json.dumps(document))

    done = plait("doctor", "--json")

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    found = {(finding["server"], finding["code"]): finding for finding in report["findings"]}
    assert found["shop", "unknown_exclude"]["fix"] == 'did you mean "search"?'
    assert found["shop", "tokens"]["message"].startswith("offers 5 of 6 tools, about ")
    assert (None, "unknown_tool_overrides") in found
    collision = found[None, "collision"]
    assert collision["level"] == "warn"
    assert {(one["tool"], one["name"]) for one in collision["details"]} == {
        (f"{server}/{name}", f"{server}__{name}")
        for server in ("shop", "store")
        for name in ("add", "search")
    }
    assert report["tokens"]["tools"] == 7
    assert report["tokens"]["tokens"] == sum(
        server["tokens"] for server in report["tokens"]["servers"].values()
    )
    assert len(report["tokens"]["largest"]) == 3


def test_options_that_a_client_refuses_end_with_the_code_of_a_wrong_configuration(
    plait: Plait, shop_url: str
) -> None:
    document = {
        "mcpServers": {"shop": {"url": shop_url}, "store": {"url": shop_url}},
        "fallbacks": {"shop": "stroe"},
        "onCollision": "error",
    }
    (plait.folder / "mcp.json").write_text(json.dumps(document))

    done = plait("doctor", "--json")

    assert done.returncode == 4, done.stderr
    report = json.loads(done.stdout)
    errors = [finding for finding in report["findings"] if finding["level"] == "error"]
    assert [finding["code"] for finding in errors] == ["fallback", "collision"]
    assert errors[0]["fix"] == 'did you mean "store"?'
    assert {(one["server"], one["code"]) for one in report["findings"]} >= {
        ("shop", "ready"),
        ("store", "ready"),
    }


def test_one_server_can_be_examined_though_another_is_its_backup(
    plait: Plait, shop_url: str
) -> None:
    document = {
        "mcpServers": {"shop": {"url": shop_url}, "store": {"url": shop_url}},
        "fallbacks": {"shop": "store"},
    }
    (plait.folder / "mcp.json").write_text(json.dumps(document))

    done = plait("doctor", "shop")

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "1 of 1 server ready; nothing to fix"


def test_every_case_is_printed_only_when_asked_for(plait: Plait, shop_url: str) -> None:
    plait.configure(shop={"url": shop_url}, store={"url": shop_url})

    short, full = plait("doctor").stdout, plait("doctor", "-v").stdout

    assert "shop and store share 6 tool names" in short
    assert "shop/logo: becomes shop__logo" not in short
    assert "      shop/logo: becomes shop__logo" in full.splitlines()


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("exec sleep 30", "downloading", "npx was still downloading"),
        ("sleep 30; true", "connect_timeout", "npx had started it after"),
    ],
)
def test_a_download_is_told_from_a_slow_server(
    plait: Plait, script: str, code: str, words: str
) -> None:
    npx = plait.folder / "npx"
    npx.write_text(f"#!/bin/sh\n{script}\n")
    npx.chmod(0o755)
    plait.configure(slow={"command": str(npx), "args": ["-y", "it"], "connect_timeout": 1})

    done = plait("doctor", "--json")

    (finding,) = [one for one in json.loads(done.stdout)["findings"] if one["level"] == "error"]
    assert finding["code"] == code
    assert words in finding["message"]
    assert "connect_timeout" in finding["fix"]


def test_a_server_for_mcp_1_gets_an_environment_of_its_own(plait: Plait) -> None:
    (plait.folder / "old.py").write_text("from mcp.server.fastmcp import FastMCP\n")
    plait.configure(old=entry("old.py"))

    done = plait("doctor", "--json")

    (finding,) = [one for one in json.loads(done.stdout)["findings"] if one["level"] == "error"]
    assert finding["code"] == "mcp_version"
    assert "mcp.server.fastmcp" in finding["message"]
    assert finding["fix"].startswith(
        "an environment of its own: uv run --no-project --with 'mcp<2'"
    )


@pytest.mark.anyio
async def test_a_server_that_refuses_pings_is_examined_without_its_latency() -> None:
    async def answer(reply: Reply) -> None:
        reply.json(reply.response())

    async with scripted_http(answer, era="legacy") as server:
        config = read_config({"servers": {"shop": {"type": "http", "url": server.url}}})
        async with Toolbox(config) as box:
            (examined,) = await examine_servers(config, box)

    assert examined.error is None
    assert [tool.name for tool in examined.listed or ()] == ["work"]
    assert examined.round_trips == ()
