"""Imports in several threads do not see half of each other's modules."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from plait._support.threads import import_once

_MODULE = """
import threading, sys
shared = sys.modules["shared_state"]
shared.running.append(__name__)
shared.most = max(shared.most, len(shared.running))
shared.turn.wait(0.2)
shared.running.remove(__name__)
"""


class _Shared:
    running: list[str]
    most = 0
    turn: threading.Event


def test_only_one_thread_imports_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = _Shared()
    shared.running, shared.turn = [], threading.Event()
    monkeypatch.setitem(sys.modules, "shared_state", shared)  # pyright: ignore[reportArgumentType]
    monkeypatch.syspath_prepend(tmp_path)
    names = [f"imported_by_thread_{number}" for number in range(3)]
    for name in names:
        (tmp_path / f"{name}.py").write_text(_MODULE)

    threads = [threading.Thread(target=import_once, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {*names} <= {*sys.modules}
    assert shared.most == 1
    for name in names:
        del sys.modules[name]
