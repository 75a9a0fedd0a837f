"""The durable state that servers and tests share."""

from __future__ import annotations

from pathlib import Path

from plait.testing import StateDir


def test_lines_are_read_back_in_order_and_a_missing_file_is_empty(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    assert state.ledger() == []

    state.append("ledger", "5")
    state.append("ledger", "7")
    state.append("starts", "100")

    assert state.ledger() == ["5", "7"]
    assert state.starts() == [100]


def test_sessions_are_counted_by_kind(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    for line in ("connect 1", "discover 1", "initialize 2", "initialize 3"):
        state.append("sessions", line)

    assert len(state.sessions()) == 4
    assert state.sessions("initialize") == ["initialize 2", "initialize 3"]
