"""Running the programs of the pages."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import EXAMPLES, blocks, matches
from tests.nursery import python

REAL_PROGRAMS = Path(sys.executable).parent
SLOW = (
    "langchain.agents",
    "langgraph.checkpoint.memory",
    "claude_agent_sdk",
    "plait.agents.engines.claude_tool.agent",
    "plait.agents.engines.langchain.agent",
    "plait.langchain.client.middleware",
    "plait.agents.engines.langchain.scripted_model",
    "plait.testing.llm.anthropic",
    "plait.testing.llm.openai",
)


def run(
    command: list[str], folder: Path, programs: Path = REAL_PROGRAMS, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command as a reader would, with this environment's programs on the path."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PLAIT_", "XDG_", "PYTEST_")) and name != "NO_COLOR"
    }
    path = os.pathsep.join([str(programs), str(REAL_PROGRAMS), os.environ["PATH"]])
    return subprocess.run(
        command,
        cwd=folder,
        env={**kept, "PATH": path, "COLUMNS": "80", **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def quick_programs(folder: Path) -> Path:
    """Write `plait` and `python` into a folder: programs that need not import what is slow."""
    folder.mkdir()
    for name, module in (("plait", ("-m", "plait.cli")), ("python", ())):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join((*python(*SLOW), *module))} "$@"\n')
        program.chmod(0o755)
    return folder


def quickly(inner: Path) -> tuple[str, ...]:
    """Return the command that starts Python with modules imported, and with `inner` as its own."""
    return (*python(*SLOW), str(Path(__file__).with_name("quickly.py")), str(inner))


def programs_with_output() -> list[Path]:
    """Return the programs whose output is on a page."""
    return sorted({block.target for block in blocks("output")})


def check_output(program: Path, folder: Path) -> None:
    """Run a program in a copy of its folder, and compare what it prints with its pages."""
    programs = quick_programs(folder / "programs")
    work = folder / "work"
    if program.parent != EXAMPLES:
        shutil.copytree(program.parent, work)
    work.mkdir(exist_ok=True)
    if program.parent == EXAMPLES / "tutorial":  # which prints the same a second time
        (work / "notes.txt").write_text("left from the first time\n")

    # A program that kills a server must hit the server itself, not a process that stands for it.
    kills = "SIGKILL" in program.read_text()
    inner = REAL_PROGRAMS if kills else programs
    done = run([*quickly(inner / Path("python")), str(program)], work, inner)

    assert done.stderr == ""
    assert done.returncode == 0
    for block in blocks("output"):
        if block.target == program:
            assert matches(block.text, done.stdout), done.stdout
