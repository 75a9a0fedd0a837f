"""The outbox loses nothing and mixes nothing up, whatever happens to the process or the gateway."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from plait.client.config.servers import ReconnectPolicy
from plait.errors import OutboxError
from plait.gateway import McpToolRegistrationService, Outbox
from plait.testing import MockGateway, eventually, free_port
from tests.integration.gateway.conftest import MakeGateway
from tests.integration.gateway.hosting import jwt, turn

PROGRAM = Path(__file__).with_name("outbox_program.py")
QUICK = ReconnectPolicy(first_delay_seconds=0.01, longest_delay_seconds=0.02)
LETTERS = ["a1", "b1", "a2", "b2", "a3"]


def history_url(gateway: MockGateway) -> str:
    return f"{gateway.url}/agents/real-time-threat-protection/chat-message"


def run(path: Path, url: str, step: str = "never", count: int = 1, letters: str = "") -> Any:
    return subprocess.run(
        [sys.executable, PROGRAM, path, url, step, str(count), letters],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("step", "count", "letters"),
    [
        ("stored", 1, "a1,a2,a3"),
        ("stored", 3, "a1,a2,a3"),
        ("sending", 1, "a1,a2,a3"),
        ("sending", 2, "a1,a2,a3"),
        ("answered", 2, "a1,a2,a3"),
        ("removed", 2, "a1,a2,a3"),
        ("postponed", 1, "a1,a2,a3"),
        ("answered", 2, "a1,b1,a2,b2,a3"),
    ],
)
def test_a_process_that_is_killed_loses_nothing_and_mixes_nothing_up(
    make_gateway: MakeGateway, tmp_path: Path, step: str, count: int, letters: str
) -> None:
    gateway = make_gateway(fail=["history=500x1"] if step == "postponed" else [])
    path = tmp_path / "outbox.db"

    killed = run(path, history_url(gateway), step, count, letters)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    steps = [tuple(line.split()) for line in killed.stdout.splitlines()]
    drained = run(path, history_url(gateway))
    assert drained.stdout.endswith("drained\n"), drained.stderr

    arrived = [str(body) for body in gateway.histories()]
    written = letters.split(",")
    stored = sum(done == "stored" for done, _ in steps)
    # One may be on disk of which the program had no time to speak.
    assert set(written[:stored]) <= set(arrived) <= set(written[: stored + 1])
    for conversation in "ab":
        own = list(dict.fromkeys(one for one in arrived if one[0] == conversation))
        assert own == sorted(own)
    repeated = {letter for letter, times in Counter(arrived).items() if times > 1}
    under_way = {number for done, number in steps if done == "sending"}
    under_way -= {number for done, number in steps if done in {"removed", "postponed"}}
    assert repeated <= {written[int(number) - 1] for number in under_way}
    if step == "answered":
        deadly = [number for done, number in steps if done == "answered"][count - 1]
        assert written[int(deadly) - 1] in repeated
    elif step != "stored":
        assert not repeated
    with Outbox(path) as outbox:
        assert outbox.store.entries() == []


def test_what_was_stored_without_a_gateway_is_sent_when_there_is_one(
    make_gateway: MakeGateway, tmp_path: Path
) -> None:
    gateway = make_gateway(fail=["history=503:0.01x3", "history=429:0.01x2"])
    with Outbox(tmp_path / "outbox.db", retry=QUICK) as outbox:
        for letter in LETTERS:
            outbox.put(letter[0], history_url(gateway), {}, f'"{letter}"'.encode())

        assert outbox.flush(20)

    arrived = gateway.histories()
    assert sorted(arrived) == sorted(LETTERS)
    assert [one for one in arrived if one[0] == "a"] == ["a1", "a2", "a3"]


def test_what_the_gateway_will_not_have_is_kept_and_lets_the_rest_go(
    make_gateway: MakeGateway, tmp_path: Path
) -> None:
    gateway = make_gateway(fail=["history=400x1"])
    with Outbox(tmp_path / "outbox.db", retry=QUICK) as outbox:
        for letter in ("a1", "a2"):
            outbox.put("a", history_url(gateway), {}, f'"{letter}"'.encode())
        assert outbox.flush(20)

        (kept,) = outbox.store.entries()
        assert (kept.body, kept.refused) == (b'"a1"', True)
        assert kept.last_error == "HTTP 400: simulated fault 400"
        assert gateway.histories() == ["a2"]
        outbox.retry()
        assert outbox.flush(20)

    assert gateway.histories() == ["a2", "a1"]


def test_a_listener_that_fails_changes_nothing(gateway: MockGateway, tmp_path: Path) -> None:
    def fail(step: str, letter: int) -> None:
        raise RuntimeError(step)

    with Outbox(tmp_path / "outbox.db", retry=QUICK, on_step=fail) as outbox:
        outbox.put("a", history_url(gateway), {}, b'"a1"')
        assert outbox.flush(20)

    assert gateway.histories() == ["a1"]


def test_a_gateway_that_asks_for_more_than_an_hour_gets_an_hour(
    make_gateway: MakeGateway, tmp_path: Path
) -> None:
    gateway = make_gateway(fail=["history=429:90000"])
    postponed = threading.Event()
    path = tmp_path / "outbox.db"
    with Outbox(path, on_step=lambda step, _: step == "postponed" and postponed.set()) as outbox:  # pyright: ignore[reportArgumentType]
        outbox.put("a", history_url(gateway), {}, b'"a1"')
        assert postponed.wait(20)
        (letter,) = outbox.store.entries()

    assert 0 < letter.not_before - time.time() <= 3600


def test_of_two_processes_one_sends_and_the_other_takes_over(
    make_gateway: MakeGateway, tmp_path: Path
) -> None:
    gateway = make_gateway()
    path = tmp_path / "outbox.db"
    sent = threading.Event()
    first = Outbox(path, retry=QUICK, on_step=lambda step, _: step == "removed" and sent.set())  # pyright: ignore[reportArgumentType]
    first.put("a", history_url(gateway), {}, b'"a1"')
    assert sent.wait(20)
    steps: list[str] = []
    with Outbox(path, retry=QUICK, on_step=lambda step, _: steps.append(step)) as second:
        second.put("a", history_url(gateway), {}, b'"a2"')
        assert second.flush(20)
        assert steps == ["stored"]
        first.close()
        second.put("a", history_url(gateway), {}, b'"a3"')
        assert second.flush(20)

    assert gateway.histories() == ["a1", "a2", "a3"]


@pytest.mark.anyio
async def test_a_turn_is_not_held_up_and_its_words_are_on_disk(tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    path = tmp_path / "outbox.db"
    async with McpToolRegistrationService(endpoint=nobody, environ={}, outbox=path) as service:
        result = await service.send_chat_history_from_messages(turn(), [HumanMessage("Hello")])

        assert result.succeeded
        assert service.configuration.outbox is not None
        (letter,) = service.configuration.outbox.store.entries()
        assert b'"content":"Hello"' in letter.body
        assert letter.conversation == "conversation-1"


@pytest.mark.anyio
async def test_a_service_sends_what_an_earlier_one_has_left(
    gateway: MockGateway, tmp_path: Path
) -> None:
    path = tmp_path / "outbox.db"
    earlier = Outbox(path)
    earlier.store.put("a", history_url(gateway), {"Content-Type": "application/json"}, b'"left"')
    earlier.close()

    async with McpToolRegistrationService(endpoint=gateway.url, environ={}, outbox=path):
        await eventually(lambda: gateway.histories() == ["left"], timeout_seconds=20)


@pytest.mark.anyio
async def test_what_waits_goes_to_the_endpoint_of_now(gateway: MockGateway, tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    old = f"http://127.0.0.1:{free_port()}/agents"
    earlier = Outbox(path)
    earlier.store.put("a", old, {"Content-Type": "application/json"}, b'"moved"')
    earlier.close()

    async with McpToolRegistrationService(endpoint=gateway.url, environ={}, outbox=path):
        await eventually(lambda: gateway.histories() == ["moved"], timeout_seconds=20)


@pytest.mark.anyio
async def test_a_full_outbox_is_a_failed_result(tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    outbox = Outbox(tmp_path / "outbox.db", max_bytes=10)
    async with McpToolRegistrationService(endpoint=nobody, environ={}, outbox=outbox) as service:
        result = await service.send_chat_history_from_messages(turn(), [HumanMessage("Hello")])

    (error,) = result.errors
    assert isinstance(error.exception, OutboxError)


def contents_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.glob("outbox.db*"))


@pytest.mark.anyio
async def test_canaries_are_neither_in_the_file_nor_sent(
    gateway: MockGateway, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    canary = "canary-7f3a9c"
    token = jwt(oid="ann", canary=canary)
    path = tmp_path / "outbox.db"

    def hide(text: str) -> str:
        return text.replace(canary, "***")

    gateway.faults.set("history=500")
    options: Any = {"outbox": Outbox(path, retry=QUICK), "redact": hide}
    async with McpToolRegistrationService(endpoint=gateway.url, environ={}, **options) as service:
        await service.register(None, None, turn(), token)
        context = turn(text=f"my key is {canary}")
        messages = [HumanMessage(f"it is {canary}")]
        assert (await service.send_chat_history_from_messages(context, messages)).succeeded
        await eventually(lambda: bool(gateway.requests("history")), timeout_seconds=20)

    files = contents_of(tmp_path)
    assert b"it is ***" in files
    for secret in (canary, token):
        assert secret.encode() not in files
        assert all(secret.encode() not in one.body for one in gateway.requests("history"))
        assert secret not in caplog.text
