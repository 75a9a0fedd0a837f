"""The pages about the command line say what the command line does."""

import subprocess
import sys
from pathlib import Path

import pytest

from plait.cli import COMMANDS
from plait.cli.exits import Exit

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "cli.md"


def test_the_pages_are_current() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "cli_reference.py", "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_page(name: str) -> None:
    assert PAGE.with_name("cli").joinpath(f"{name}.md").read_text().startswith(f"# plait {name}\n")
    assert f"[`plait {name}`](cli/{name}.md)" in PAGE.read_text()


@pytest.mark.parametrize("code", list(Exit))
def test_every_exit_code_is_explained(code: Exit) -> None:
    assert f"\n| {code.value} | {code.meaning} |\n" in PAGE.read_text()
