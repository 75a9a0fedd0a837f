"""On stdio every line is answered, and the end of input ends the process."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.reasoning.servers import SERVE, environment
from tests.nursery import python

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
SHUTDOWNS = int(os.environ.get("SHUTDOWNS", "6"))
"""How often a server is ended; `make soak-stdio` does it a thousand times."""


@contextmanager
def server(database: Path) -> Generator[subprocess.Popen[bytes]]:
    """Run a server on pipes; one that does not end is killed."""
    command = [*python(), *SERVE, "--db", str(database)]
    env = {**os.environ, **environment()}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=env,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _exchange(database: Path, lines: Sequence[bytes]) -> tuple[list[dict[str, Any]], int]:
    """Send lines and the end of input at once; return the answers and the exit code."""
    with server(database) as process:
        output, _ = process.communicate(b"\n".join(lines) + b"\n", timeout=60)
    return [json.loads(line) for line in output.splitlines()], process.returncode


def _malformed(number: int) -> bytes:
    chance = random.Random(number)
    kinds = (
        b'{"jsonrpc": "2.0", "id": %d, "method": "ping", "params": {"x": "\\ud800"}}' % number,
        b"[" * 100_000,
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"{not json",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'"text"',
        b'{"jsonrpc": "2.0"}',
        b'{"jsonrpc": "2.0", "id": %d}' % number,
        b'{"jsonrpc": "1.0", "id": %d, "method": "ping"}' % number,
        b'{"jsonrpc": "2.0", "id": %d, "method": 3}' % number,
        b'{"jsonrpc": "2.0", "id": [], "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": %d, "method": "ping"' % number,
    )
    return chance.choice(kinds)


def test_every_malformed_line_is_answered_and_so_is_what_follows(tmp_path: Path) -> None:
    lines = [_malformed(number) for number in range(500)]

    answers, code = _exchange(tmp_path / "r.db", [*lines, b"", json.dumps(PING).encode()])

    errors = [answer["error"]["code"] for answer in answers if "error" in answer]
    assert len(errors) == 500
    assert set(errors) == {-32700, -32600}
    assert (answers[-1], code) == ({"jsonrpc": "2.0", "id": 1, "result": {}}, 0)


def test_a_malformed_request_is_answered_under_its_id(tmp_path: Path) -> None:
    line = b'{"jsonrpc": "2.0", "id": "x", "method": "ping", "params": {"a": "\\ud800"}}'

    answers, _ = _exchange(tmp_path / "r.db", [line, b"{"])

    assert [(one["id"], one["error"]["code"]) for one in answers] == [("x", -32600), (None, -32700)]


def test_requests_before_the_end_of_input_are_answered(tmp_path: Path) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        },
    }
    calls = [
        {
            "jsonrpc": "2.0",
            "id": number,
            "method": "tools/call",
            "params": {
                "name": "reasoning_linear",
                "arguments": {"content": f"thought {number}", "session_id": "s"},
            },
        }
        for number in range(1, 21)
    ]
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    lines = [json.dumps(message).encode() for message in (hello, ready, *calls)]

    answers, code = _exchange(tmp_path / "r.db", lines)

    assert sorted(one["id"] for one in answers if "result" in one) == list(range(21))
    assert code == 0


def _seconds_to_end(database: Path, number: int) -> float:
    """Start a server, close its input, and return how long it took to end."""
    with server(database) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(PING).encode() + b"\n")
        process.stdin.flush()
        assert process.stdout.readline()
        if number >= 10:
            # The database is polled once a second: end before, during and after that.
            time.sleep(0.95 + 0.005 * (number % 20))
        process.stdin.close()
        began = time.monotonic()
        assert process.wait(60) == 0
        return time.monotonic() - began


@pytest.mark.timeout(120 + 5 * SHUTDOWNS)
def test_the_end_of_input_ends_the_process_at_any_time(tmp_path: Path) -> None:
    database = tmp_path / "r.db"
    slowest = _seconds_to_end(database, 0)
    with ThreadPoolExecutor(4) as threads:
        took = threads.map(partial(_seconds_to_end, database), range(1, SHUTDOWNS))
        for number, seconds in enumerate(took, 2):
            slowest = max(slowest, seconds)
            if number % 50 == 0:
                print(f"{number} shutdowns, the slowest took {slowest:.2f} s", flush=True)
    print(f"{SHUTDOWNS} shutdowns, 0 hangs, the slowest took {slowest:.2f} s")
