"""`plait doctor` against real servers, well and unwell."""

import json
from typing import Any

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
    assert lines[1].startswith("  ✓ connected in ")
    assert lines[2].startswith("  ✓ answers in ")
    assert lines[-1] == "1 of 1 server ready; nothing to fix"


def test_a_slip_in_the_configuration_is_a_warning(
    plait: Plait, time_config: dict[str, Any]
) -> None:
    plait.configure(time={**time_config, "comand": "x"})

    report = json.loads(plait("doctor", "--json").stdout)

    warning = next(finding for finding in report["findings"] if finding["level"] == "warn")
    assert (warning["server"], warning["code"]) == ("time", "unknown_key")
    assert "command" in warning["fix"]
