"""Running the programs of the pages."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.docs.pages import EXAMPLES, blocks, matches


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a reader would, with this environment's programs on the path."""
    return subprocess.run(
        command,
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def run_program(program: Path, folder: Path, output: Path) -> subprocess.CompletedProcess[str]:
    """Run a Python program in a process that need not import what is slow."""
    nursery = _nursery()
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    wanted = {
        "program": str(program),
        "folder": str(folder),
        "environment": _environment(),
        "output": str(output),
    }
    nursery.stdin.write(f"{json.dumps(wanted)}\n")
    nursery.stdin.flush()
    code = int(nursery.stdout.readline())
    said = [(output / name).read_text() for name in ("stdout", "stderr")]
    return subprocess.CompletedProcess([str(program)], code, *said)


@functools.cache
def _nursery() -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("nursery.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=_environment(),
        text=True,
    )

    def stop() -> None:
        started.communicate()

    atexit.register(stop)
    return started


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PLAIT_", "XDG_", "PYTEST_")) and name != "NO_COLOR"
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "COLUMNS": "80"}


def programs_with_output() -> list[Path]:
    """Return the programs whose output is on a page."""
    return sorted({block.target for block in blocks("output")})


def check_output(program: Path, folder: Path) -> None:
    """Run a program in a copy of its folder, and compare what it prints with its pages."""
    if program.parent != EXAMPLES:
        shutil.copytree(program.parent, folder, dirs_exist_ok=True)

    with tempfile.TemporaryDirectory() as output:
        done = run_program(program, folder, Path(output))

    assert done.stderr == ""
    assert done.returncode == 0
    for block in blocks("output"):
        if block.target == program:
            assert matches(block.text, done.stdout), done.stdout
