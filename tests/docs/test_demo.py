"""`make demo` shows what it promises, in less than a minute, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.docs.pages import ROOT

DEMO = [sys.executable, str(ROOT / "scripts" / "demo.py")]


def environment(tmp_path: Path) -> dict[str, str]:
    """Give the demo its own folder for temporary files."""
    return {**os.environ, "TMPDIR": str(tmp_path), "COLUMNS": "80"}


@pytest.mark.timeout(90)
def test_the_demo_heals_everything_it_breaks(tmp_path: Path) -> None:
    began = time.monotonic()
    done = subprocess.run(
        DEMO, env=environment(tmp_path), capture_output=True, text=True, timeout=80, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - began < 60
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert re.search(r"files +stdio +ready", done.stdout)
    assert re.search(r"web +http +ready", done.stdout)
    assert re.search(r"chat +websocket +ready", done.stdout)
    healed = re.findall(r"healed pid (\d+) → (\d+), session 2", done.stdout)
    assert len(healed) == 2
    assert all(before != after for before, after in healed)
    assert "2 attempts; the server ran the tool 2 times." in done.stdout
    assert "✗ OutcomeUnknownError" in done.stdout
    assert "Paid 100: 1 line in the ledger, not 2." in done.stdout
    assert "Its ledger: 20, 100, 30." in done.stdout
    agent = done.stdout.partition("6. A LangChain agent")[2].partition("7. The state")[0]
    assert agent.count("Hello from a real file.") == 2
    assert re.search(r"tool +bank/pay_and_die: the answer was lost", agent)
    assert "Paid 50: 1 line in the ledger, not 2." in agent
    assert re.search(r"bank +opened +session 3", done.stdout)
    assert "plait init" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_the_demo_and_its_servers(tmp_path: Path) -> None:
    with subprocess.Popen(
        DEMO,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        assert any("2. kill -9 between two calls" in line for line in demo.stdout)
        servers = psutil.Process(demo.pid).children(recursive=True)
        demo.send_signal(signal.SIGINT)
        printed, complaints = demo.communicate(timeout=30)

    assert "Stopped. Every server of the demo is closed." in printed
    assert (demo.returncode, complaints) == (130, "")
    assert len(servers) >= 5
    assert psutil.wait_procs(servers, timeout=10)[1] == []
    assert list(tmp_path.iterdir()) == []
