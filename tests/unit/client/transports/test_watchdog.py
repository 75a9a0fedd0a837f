"""The table of processes that the watchdog looks at."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest

from plait.client.transports import _watchdog

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")


@linux
def test_processes_are_listed_with_parent_and_group_and_the_watchdog_never_counts_itself() -> None:
    nobody = 2**22 + 12345

    assert _watchdog.processes()[os.getpid()] == (os.getppid(), os.getpgrp())
    assert os.getpid() not in _watchdog.members({os.getpgrp(): b""})
    assert _watchdog.members({}) == set()
    _watchdog.send({nobody: b""}, {nobody}, 0)  # what is gone does not matter


def test_it_imports_only_the_standard_library() -> None:
    tree = ast.parse(Path(_watchdog.__file__).read_text("utf-8"))
    imported: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                imported |= {alias.name for alias in node.names}
            case ast.ImportFrom():
                imported.add(node.module or ".")
            case _:
                pass

    assert imported <= sys.stdlib_module_names
