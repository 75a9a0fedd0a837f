"""Runs the program on a terminal, as a person would."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.nursery import python


def on_terminal(
    *arguments: str,
    environment: Mapping[str, str],
    folder: Path | None = None,
    typed: str | None = None,
) -> tuple[int, str]:
    """Return the exit code of a command and what a terminal shows of it.

    `typed` is what a person has typed ahead; without it, only the output is on the terminal.
    """
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*python(), "-m", "plait.cli", *arguments],
        cwd=folder,
        env={**environment},
        stdin=subprocess.DEVNULL if typed is None else slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    if typed is not None:
        os.write(master, typed.encode())
    output = b""
    try:
        while chunk := os.read(master, 65536):
            output += chunk
    except OSError:  # the other end of the terminal is closed
        pass
    os.close(master)
    return process.wait(timeout=60), output.decode()
