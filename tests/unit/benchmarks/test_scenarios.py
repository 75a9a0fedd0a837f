"""The scenarios, contenders and pinned versions of the comparison."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.compare.contenders import CONTENDERS
from benchmarks.compare.environments import PINS
from benchmarks.compare.run import Plan
from benchmarks.compare.scenarios import ROWS, SCENARIOS, Location
from benchmarks.compare.server import Answers
from benchmarks.compare.workers.__main__ import PEERS

LOCATION = Location(port=4711, core=1)


def test_every_row_and_contender_has_an_id_of_its_own() -> None:
    for ids in ([row.id for row in ROWS], [contender.id for contender in CONTENDERS]):
        assert len(ids) == len(set(ids))


def test_a_quick_run_measures_no_more_rounds_than_a_full_one() -> None:
    assert all(scenario.quick_rounds <= scenario.rounds for scenario in SCENARIOS)
    assert any(scenario.quick_rounds for scenario in SCENARIOS)


def test_every_python_contender_has_a_worker() -> None:
    assert PEERS.keys() == {contender.id for contender in CONTENDERS if not contender.is_node}


def test_a_plan_limits_calls_and_seconds() -> None:
    (warm,) = [scenario for scenario in SCENARIOS if scenario.rows[0].id == "stdio"]

    full = Plan().request(warm, LOCATION)
    quick = Plan(is_quick=True, most_calls=10, call_seconds=0.5).request(warm, LOCATION)

    assert (full["n"], full["seconds"]) == (1000, 1.0)
    assert (quick["n"], quick["seconds"]) == (10, 0.5)
    assert full["servers"] == quick["servers"]


def test_requests_can_be_sent_as_json() -> None:
    for scenario in SCENARIOS:
        json.dumps(Plan().request(scenario, LOCATION))


def test_servers_of_a_cold_start_have_names_of_their_own() -> None:
    (cold,) = [scenario for scenario in SCENARIOS if scenario.rows[0].id == "cold-8"]

    assert len({server["name"] for server in cold.servers(LOCATION)}) == 8


@pytest.mark.parametrize("pins", sorted(PINS.glob("*.txt")), ids=lambda path: path.name)
def test_pins_hold_names_and_versions_only(pins: Path) -> None:
    lines = pins.read_text("utf-8").split()

    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def test_every_environment_is_pinned() -> None:
    needed = {c.environment for c in CONTENDERS if c.environment and not c.is_node}

    assert {path.stem for path in PINS.glob("*.txt")} == needed | {"inspect-ai"}
    dependencies = json.loads((PINS / "package.json").read_text("utf-8"))["dependencies"]
    assert all(re.fullmatch(r"[\d.]+", version) for version in dependencies.values())


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_the_server_answers_calls_in_both_eras(era: str) -> None:
    answers = Answers(era, 2)
    request = {
        "jsonrpc": "2.0",
        "id": "a",
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": "hello"}},
    }

    response, status = answers.answer(json.dumps(request).encode())

    assert status == 200
    assert response is not None
    reply = json.loads(response)
    assert reply["id"] == "a"
    assert reply["result"]["content"] == [{"type": "text", "text": "hello"}]
    assert reply["result"].get("resultType") == ("complete" if era == "modern" else None)


def test_the_server_of_one_era_refuses_the_opening_of_the_other() -> None:
    handshake = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize"}).encode()
    discover = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}).encode()

    statuses = [
        Answers(era, 0).answer(message)[1]
        for era in ("handshake", "modern")
        for message in (handshake, discover)
    ]

    assert statuses == [200, 400, 404, 200]


def test_a_generated_tool_is_as_large_as_those_of_real_servers() -> None:
    listing = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()

    sizes = [len(Answers("handshake", count).answer(listing)[0] or b"") for count in (0, 1000)]

    assert 1400 < (sizes[1] - sizes[0]) / 1000 < 2000


def test_a_notification_has_no_response() -> None:
    message = {"jsonrpc": "2.0", "method": "notifications/initialized"}

    assert Answers("handshake", 0).answer(json.dumps(message).encode()) == (None, 202)
