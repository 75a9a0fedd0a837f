"""A program that is forked looks like one that was started."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.nursery import python, send_signal

SAYS = """
import os, sys
print(sys.argv[1:], os.getcwd(), os.environ.get("SHOP"), sys.stdin.read())
print("aside", file=sys.stderr)
sys.exit(7)
"""
WAITS = """
import os, time
print(os.getpid(), flush=True)
time.sleep(600)
"""


def written(folder: Path, text: str) -> str:
    (folder / "program.py").write_text(text)
    return str(folder / "program.py")


def test_a_program_has_its_own_arguments_streams_folder_environment_and_exit_code(
    tmp_path: Path,
) -> None:
    done = subprocess.run(
        [*python(), written(tmp_path, SAYS), "one", "two"],
        cwd=tmp_path,
        env={"SHOP": "tea"},
        input="typed",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout == f"['one', 'two'] {tmp_path} tea typed\n"
    assert done.stderr == "aside\n"
    assert done.returncode == 7


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, None])
def test_a_signal_ends_the_process_and_its_program(
    number: signal.Signals | None, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [*python(), written(tmp_path, WAITS)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        program = psutil.Process(int(process.stdout.readline()))

        if number is None:  # to the program, which takes its process along
            send_signal(process.pid, signal.SIGKILL)
        else:
            process.send_signal(number)

        assert process.stdout.read() == b""  # the program has closed it
        assert process.wait(30) == -(number or signal.SIGKILL)
        program.wait(30)
