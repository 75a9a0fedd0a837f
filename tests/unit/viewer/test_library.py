"""The library lists traces of files and folders, and reads nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from plait.traces.codec import line_from_event
from plait.traces.trace import Trace
from plait.viewer.library import MAX_FILE_BYTES, TraceLibrary, run_key
from tests.unit.html.sample_runs import full_run


def lines_of(*traces: Trace) -> bytes:
    return b"".join(line_from_event(event) for trace in traces for event in trace.events)


def test_runs_of_folders_are_found_and_other_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "run.jsonl").write_bytes(lines_of(full_run()))
    (tmp_path / "other.jsonl").write_text('{"not": "a trace"}\n')
    (tmp_path / "run.txt").write_bytes(lines_of(full_run(run="b")))

    (row,) = TraceLibrary([tmp_path]).rows()

    assert row.file.endswith("run.jsonl")
    assert row.status == "completed"


def test_a_file_that_grows_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    trace = full_run()
    lines = [line_from_event(event) for event in trace.events]
    path.write_bytes(b"".join(lines[:4]))
    library = TraceLibrary([tmp_path])
    before, version = library.rows()[0], library.version()

    path.write_bytes(b"".join(lines))

    assert before.status == "unfinished"
    assert library.rows()[0].status == "completed"
    assert library.version() != version


def test_a_link_that_leads_out_of_a_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "secret.jsonl"
    outside.write_bytes(lines_of(full_run()))
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "link.jsonl").symlink_to(outside)

    assert TraceLibrary([shown]).rows() == []


def test_what_is_no_file_or_too_large_is_not_opened(tmp_path: Path) -> None:
    named, folder = tmp_path / "named.jsonl", tmp_path / "shown"
    folder.mkdir()
    (folder / "run.jsonl").write_bytes(lines_of(full_run()))
    (folder / "loop.jsonl").symlink_to(folder / "loop.jsonl")
    (folder / "folder.jsonl").mkdir()
    os.mkfifo(folder / "fifo.jsonl")
    library = TraceLibrary([named, folder])
    (row,) = library.rows()
    _, _, file, key = row.href.split("/")

    os.mkfifo(named)  # would wait for a writer
    assert library.rows() == [row]
    named.unlink()
    named.symlink_to(named)
    assert library.rows() == [row]
    named.unlink()
    (folder / "large.jsonl").write_bytes(lines_of(full_run(run="large")))
    os.truncate(folder / "large.jsonl", MAX_FILE_BYTES + 1)
    assert library.rows() == [row]
    assert library.too_large() == [str(folder / "large.jsonl")]
    trace = library.trace(file, key)
    assert trace is not None
    assert library.wire(file, trace) == {}


def test_tapes_that_are_no_files_are_not_opened(tmp_path: Path) -> None:
    run, tape = tmp_path / "run.jsonl", tmp_path / "tape.jsonl"
    run.write_bytes(lines_of(full_run()))
    os.mkfifo(tape)
    library = TraceLibrary([run, tape])
    _, _, file, key = library.rows()[0].href.split("/")

    trace = library.trace(file, key)

    assert trace is not None
    assert library.wire(file, trace) == {}


@pytest.mark.parametrize("run", ["../../etc/passwd", "a/b", "<script>", "x" * 200, "ü", "\ud800"])
def test_the_address_of_a_run_with_a_strange_id_is_plain(tmp_path: Path, run: str) -> None:
    trace = full_run(run="plain")
    (tmp_path / "run.jsonl").write_bytes(lines_of(trace))
    library = TraceLibrary([tmp_path])
    strange = Trace(run=run, events=trace.events)
    assert run_key(strange).isascii()
    assert run_key(strange).isalnum()
    assert len(run_key(strange)) < 65
    (row,) = library.rows()
    _, _, file, key = row.href.split("/")
    found = library.trace(file, key)
    assert found is not None
    assert found.run == "plain"
    assert library.trace(file, run) is None
    assert library.trace("../" + file, key) is None


@pytest.mark.parametrize("folder", ["node_modules", ".venv/lib", ".git"])
def test_folders_of_tools_are_not_searched(tmp_path: Path, folder: str) -> None:
    for name in (folder, "runs/.plait"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "one.jsonl").touch()

    found = TraceLibrary([tmp_path]).files()

    assert [file.path for file in found] == [tmp_path / "runs/.plait/one.jsonl"]
    assert [file.path for file in TraceLibrary([tmp_path / folder]).files()] != []
