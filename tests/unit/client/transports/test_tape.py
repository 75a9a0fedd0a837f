"""Tapes are read as they were written, whatever their texts contain."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plait.client.transports.tape import Tape, TapeMode, read_tape
from plait.errors import ConfigError

BREAKS = "one\u2028two\u2029three\x85four\x0bfive\r\nsix"


def test_a_text_with_any_line_break_is_one_line(tmp_path: Path) -> None:
    call = {"server": "s", "method": "tools/call", "params": {}, "result": {"text": BREAKS}}
    path = tmp_path / "tape.jsonl"
    lines = [json.dumps(line, ensure_ascii=False) for line in ({"tape": 1}, call, call)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    assert [one.result for one in read_tape(path)] == [{"text": BREAKS}] * 2


def test_an_empty_file_is_no_tape(tmp_path: Path) -> None:
    (tmp_path / "tape.jsonl").touch()

    with pytest.raises(ConfigError):
        read_tape(tmp_path / "tape.jsonl")


@pytest.mark.parametrize("mode", ["all", "new_episodes"])
def test_only_its_owner_can_read_a_tape_even_one_that_was_there(
    tmp_path: Path, mode: TapeMode
) -> None:
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    old.write_text('{"tape": 1}\n')
    old.chmod(0o664)
    for path in (old, new):
        Tape(path, mode=mode).write({"server": "s", "method": "ping", "result": {}})

    assert [path.stat().st_mode & 0o777 for path in (old, new)] == [0o600, 0o600]
    assert [one.method for one in read_tape(old)] == ["ping"]
