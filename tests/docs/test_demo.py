"""`plait demo` kills servers of two clients, measures what becomes of them, and leaves nothing."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import psutil
import pytest

DEMO = [sys.executable, "-m", "plait", "demo"]
NO_SDK = """
import importlib.metadata
real = importlib.metadata.version
def version(name):
    if name == "mcp":
        raise importlib.metadata.PackageNotFoundError(name)
    return real(name)
importlib.metadata.version = version
from plait.cli import main
main(["demo"])
"""


def environment(folder: Path) -> dict[str, str]:
    """Give the demo its own folder for temporary files."""
    return {**os.environ, "TMPDIR": str(folder), "TERM": "xterm-256color"}


def played(command: list[str], folder: Path) -> str:
    """Run the demo without a terminal, and return what it printed."""
    done = subprocess.run(
        command, env=environment(folder), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(folder.iterdir()) == []
    return done.stdout


def on_a_terminal(columns: int, folder: Path) -> str:
    """Run the demo on a terminal of this width, and return what was written to it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    unset = {"COLUMNS", "NO_COLOR"}
    env = {name: value for name, value in environment(folder).items() if name not in unset}
    with subprocess.Popen(DEMO, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as demo:
        os.close(theirs)
        written = b""
        while select.select([ours], [], [], 60)[0]:
            try:
                written += os.read(ours, 65536)
            except OSError:  # the end of the terminal
                break
    os.close(ours)
    assert demo.returncode == 0
    return written.decode()


@pytest.mark.timeout(90)
def test_the_left_loses_servers_and_pays_twice_and_the_right_does_neither(tmp_path: Path) -> None:
    printed = played(DEMO, tmp_path)

    assert len(re.findall(r"kill -9 \d+ \d+ ", printed)) == 2
    for name in ("files", "shop"):
        assert re.search(rf"mcp\.Client {name} lost: \w+", printed)
        assert re.search(rf"plait {name} healed: answered [\d.]+ m?s after the kill", printed)
    left, right = re.findall(r"(?<=  )\d of 5 answer.*", printed)
    assert re.fullmatch(r"3 of 5 answer · \d+ calls failed · ledger: 2 lines, paid twice", left)
    assert right == "5 of 5 answer · 0 calls failed · ledger: 1 line, not 2"


@pytest.mark.timeout(90)
def test_without_the_sdk_the_right_half_plays_alone_and_says_so(tmp_path: Path) -> None:
    printed = played([sys.executable, "-c", NO_SDK], tmp_path)

    assert "mcp.Client" not in printed
    assert "5 of 5 answer · 0 calls failed · ledger: 1 line, not 2" in printed
    assert "pip install 'plait[demo]'" in printed
    assert printed.endswith("\n  plait view --demo\n")


@pytest.mark.timeout(90)
@pytest.mark.parametrize(("columns", "is_split"), [(60, False), (80, True)])
def test_a_terminal_is_split_if_it_is_wide_enough(
    columns: int, is_split: bool, tmp_path: Path
) -> None:
    text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", on_a_terminal(columns, tmp_path))

    halves = re.findall(r"╭─ mcp.Client 2[\d.]+ ─+╮╭─ plait [\d.]+ ─+╮", text)
    assert (len(halves) > 20) == is_split  # frames
    assert all(len(line.rstrip()) <= columns for line in text.replace("\r", "\n").splitlines())
    assert text.rstrip().endswith("plait view --demo")


@pytest.mark.timeout(90)
def test_ctrl_c_ends_the_demo_and_its_servers(tmp_path: Path) -> None:
    with subprocess.Popen(
        DEMO,
        env={**environment(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as demo:
        assert demo.stdout is not None
        assert any("kill -9" in line for line in demo.stdout)
        servers = psutil.Process(demo.pid).children(recursive=True)
        os.killpg(demo.pid, signal.SIGINT)  # as a terminal does, to all in its foreground
        _, complaints = demo.communicate(timeout=30)

    assert (demo.returncode, complaints) == (130, "\ninterrupted\n")
    assert len(servers) >= 8
    assert psutil.wait_procs(servers, timeout=10)[1] == []
    assert list(tmp_path.iterdir()) == []


def test_a_reader_who_has_seen_enough_ends_the_demo_without_an_error(tmp_path: Path) -> None:
    with subprocess.Popen(
        DEMO,
        env={**environment(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        assert any("mcp.Client opened" in line for line in demo.stdout)
        demo.stdout.close()
        complaints = demo.stderr.read()

    assert (demo.returncode, complaints) == (0, "")
    assert list(tmp_path.iterdir()) == []
