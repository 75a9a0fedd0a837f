"""Every program in the pages is a file that runs, and prints what the page says it prints."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.pages import EXAMPLES, Block, blocks, matches, pages
from tests.docs.programs import (
    REAL_PROGRAMS,
    check_output,
    programs_with_output,
    quick_programs,
    quickly,
    run,
)

SERVERS = {"calculator_server.py", "notes_server.py", "shop_server.py"}
"""Programs that others start."""

PYTEST_FILES = {
    "checks.py",
    "conftest.py",
    "test_agent.py",
    "test_engine.py",
    "test_recorded.py",
    "test_repeated.py",
    "test_shop.py",
}


@pytest.mark.parametrize("block", blocks("file"), ids=str)
def test_a_quoted_file_is_quoted_as_it_is(block: Block) -> None:
    assert block.text == block.target.read_text()


def test_no_program_in_a_page_is_without_a_file() -> None:
    for page in pages():
        quoted = [one for one in blocks("file") if one.page == page and one.language == "python"]
        assert len(quoted) == page.read_text().count("```python\n"), page


def test_every_example_is_on_a_page() -> None:
    quoted = {block.target for block in blocks("file")}
    linked = {
        (page.parent / target).resolve()
        for page in pages()
        for target in re.findall(r"\]\(([^)\s]+\.py)\)", page.read_text())
    }

    assert set(EXAMPLES.rglob("*.py")) - quoted - linked == set()


def test_every_program_has_its_output_on_a_page() -> None:
    others = SERVERS | PYTEST_FILES | {"six_lines.py"}  # tests of the README run it
    programs = {
        path
        for path in EXAMPLES.rglob("*.py")
        # `make test-frameworks` runs those of frameworks that are not installed here.
        if path.name not in others and path.parent.name != "frameworks"
    }

    assert programs == {block.target for block in blocks("output")}


@pytest.mark.parametrize(
    "program",
    [path for path in programs_with_output() if path.parent != EXAMPLES / "langchain"],
    ids=lambda path: path.name,
)
def test_an_example_prints_what_its_pages_say(program: Path, tmp_path: Path) -> None:
    check_output(program, tmp_path)


@pytest.mark.parametrize("block", blocks("session"), ids=str)
def test_a_shell_session_goes_as_its_page_says(block: Block, tmp_path: Path) -> None:
    folder = shutil.copytree(block.target, tmp_path / "folder")
    real = block.target == EXAMPLES / "tutorial"
    quick = quick_programs(tmp_path / "programs")
    # On other pages the reader has approved the configuration, at a prompt.
    environment = {"XDG_STATE_HOME": str(tmp_path / "state"), "PLAIT_TRUST": "" if real else "1"}
    steps = block.text.split("$ ")[1:]
    if real:
        (folder / "notes.txt").write_text("left from the first time\n")

    for number, step in enumerate(steps):
        command, _, expected = step.partition("\n")
        # What a reader does first has the programs that a reader has.
        programs = REAL_PROGRAMS if real and number < 2 else quick
        done = run(["bash", "-c", command], folder, programs, **environment)

        assert matches(expected, done.stdout + done.stderr), (command, done.stdout, done.stderr)


def test_the_example_tests_pass(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "testing", tmp_path, dirs_exist_ok=True)

    # Its tests restart servers, which must be processes of their own.
    command = [*quickly(REAL_PROGRAMS / "python"), "-m", "pytest", "-q", "-W", "error"]
    done = run([*command, "-W", "ignore::pytest.PytestAssertRewriteWarning"], tmp_path)

    assert done.returncode == 0, done.stdout
    assert "16 passed" in done.stdout
