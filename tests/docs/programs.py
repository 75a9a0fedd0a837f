"""Running the programs of the pages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import EXAMPLES, blocks, matches


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a reader would, with this environment's programs on the path."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PLAIT_", "XDG_", "PYTEST_")) and name != "NO_COLOR"
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=folder,
        env={**kept, "PATH": path, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def programs_with_output() -> list[Path]:
    """Return the programs whose output is on a page."""
    return sorted({block.target for block in blocks("output")})


def check_output(program: Path, folder: Path) -> None:
    """Run a program in a copy of its folder, and compare what it prints with its pages."""
    if program.parent != EXAMPLES:
        shutil.copytree(program.parent, folder, dirs_exist_ok=True)

    done = run([sys.executable, str(program)], folder)

    assert done.stderr == ""
    assert done.returncode == 0
    for block in blocks("output"):
        if block.target == program:
            assert matches(block.text, done.stdout), done.stdout
