"""Every program in the pages is a file that runs, and prints what the page says it prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import EXAMPLES, Block, blocks, matches, pages

SERVERS = {"sloppy_server.py", "notes_server.py"}
"""Programs that others start."""

PYTEST_FILES = {"conftest.py", "test_shop.py"}


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
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


@pytest.mark.parametrize("block", blocks("file"), ids=str)
def test_a_quoted_file_is_quoted_as_it_is(block: Block) -> None:
    assert block.text == block.target.read_text()


def test_no_program_in_a_page_is_without_a_file() -> None:
    for page in pages():
        quoted = [one for one in blocks("file") if one.page == page and one.language == "python"]
        assert len(quoted) == page.read_text().count("```python\n"), page


def test_every_example_is_on_a_page() -> None:
    quoted = {block.target for block in blocks("file")}

    assert set(EXAMPLES.rglob("*.py")) - quoted == set()


def test_every_program_has_its_output_on_a_page() -> None:
    programs = {path for path in EXAMPLES.rglob("*.py") if path.name not in SERVERS | PYTEST_FILES}

    assert programs == {block.target for block in blocks("output")}


@pytest.mark.parametrize(
    "program", sorted({block.target for block in blocks("output")}), ids=lambda path: path.name
)
def test_an_example_prints_what_its_pages_say(program: Path, tmp_path: Path) -> None:
    if program.parent != EXAMPLES:
        shutil.copytree(program.parent, tmp_path, dirs_exist_ok=True)

    done = run([sys.executable, str(program)], tmp_path)

    assert done.stderr == ""
    assert done.returncode == 0
    for block in blocks("output"):
        if block.target == program:
            assert matches(block.text, done.stdout), done.stdout


@pytest.mark.parametrize("block", blocks("session"), ids=str)
def test_a_shell_session_goes_as_its_page_says(block: Block, tmp_path: Path) -> None:
    shutil.copytree(block.target, tmp_path, dirs_exist_ok=True)
    steps = block.text.split("$ ")[1:]

    for step in steps:
        command, _, expected = step.partition("\n")
        done = run(["bash", "-c", command], tmp_path)

        assert matches(expected, done.stdout + done.stderr), (command, done.stdout, done.stderr)


def test_the_example_tests_pass(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "testing", tmp_path, dirs_exist_ok=True)

    done = run([sys.executable, "-m", "pytest", "-q", "-W", "error"], tmp_path)

    assert done.returncode == 0, done.stdout
    assert "5 passed" in done.stdout
