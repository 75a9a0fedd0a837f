"""Trace files: what had happened is there, however a run ended."""

from __future__ import annotations

import logging
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.errors import TraceFormatError
from plait.traces.file import TraceFile, read_trace, read_traces, traces_from_bytes
from plait.traces.messages.message import Message
from plait.traces.recorder import Recorder
from tests.unit.traces.runs import Lines, begun

_KILLED = """
import os, signal, sys
from plait.traces.messages.message import Message
from plait.traces.file import TraceFile
from plait.traces.recorder import Recorder

recorder = Recorder(TraceFile(sys.argv[1]), run="killed")
recorder.run_started([Message.user("q")], interface="x")
recorder.turn(Message.assistant("I look."))
recorder.tool_called("c", "t", {})
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_leaves_all_that_had_happened(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"

    done = subprocess.run([sys.executable, "-c", _KILLED, str(path)], check=False, timeout=60)

    assert done.returncode == -signal.SIGKILL
    trace = read_trace(path)
    assert [event.kind for event in trace.events] == ["run", "turn", "tool_call"]
    assert trace.status == "unfinished"
    assert trace.final_response == "I look."


def test_each_event_is_in_the_file_at_once_which_only_its_owner_may_read(tmp_path: Path) -> None:
    path, open_to_all = tmp_path / "deep" / "run.jsonl", tmp_path / "run.jsonl"
    open_to_all.touch()
    open_to_all.chmod(0o664)
    for place in (path, open_to_all):
        file = TraceFile(place)
        assert begun(file).trace == read_trace(place)
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        file.close()
    TraceFile("/dev/null").close()  # a device is left as it is


@given(data=st.data())
def test_a_trace_that_is_cut_anywhere_is_the_beginning_of_it(data: st.DataObject) -> None:
    sink = Lines()
    whole = begun(sink).trace
    length = data.draw(st.integers(sink.data.index(b"\n") + 1, len(sink.data)))

    (trace,) = traces_from_bytes(sink.data[:length])

    # Without its line break, the last event may still be complete.
    complete = sink.data[:length].count(b"\n")
    is_torn = sink.data[:length].rpartition(b"\n")[2] != b""
    complete += is_torn and sink.data[length : length + 1] == b"\n"
    assert trace.events == whole.events[:complete]
    assert trace.damaged == (sink.data[:length].count(b"\n") + is_torn - complete)


def test_a_run_can_be_added_after_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    sink = Lines()
    begun(sink)
    path.write_bytes(sink.data[:-20])

    file = TraceFile(path)
    second = Recorder(file, run="r2")
    second.turn(Message.assistant("hi"))
    file.close()

    first, later = read_traces(path)
    assert len(first.events) == sink.data.count(b"\n") - 1
    assert later.events == second.trace.events


def test_runs_of_one_file_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    file = TraceFile(path)
    runs = [Recorder(file, run=name) for name in ("aa1", "ab2")]
    for place in range(2):
        for recorder in runs:
            recorder.turn(Message.assistant(f"{recorder.run} {place}"))
    file.close()

    assert [trace.run for trace in read_traces(path)] == ["aa1", "ab2"]
    assert read_trace(path) == runs[1].trace
    assert read_trace(path, "aa") == runs[0].trace
    for unclear in ("a", "b"):
        with pytest.raises(TraceFormatError, match="aa1, ab2"):
            read_trace(path, unclear)


@pytest.mark.parametrize("data", [b"", b"hello\n", b"[]\n", b'{"role": "user"}\n', b"\xff\n"])
def test_what_is_no_trace_is_an_error(data: bytes) -> None:
    with pytest.raises(TraceFormatError, match="no line is"):
        traces_from_bytes(data)

    with pytest.raises(TraceFormatError, match="line 1: version 2"):
        traces_from_bytes(b'{"v":2,"event":"run"}\n')


def test_a_full_disk_is_said_once_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full here")
    file = TraceFile(full)

    with caplog.at_level(logging.WARNING, "plait.traces"):
        recorder = begun(file)

    assert len(caplog.records) == 1
    assert len(recorder.trace.events) == 8
    file.close()


def test_a_run_that_continues_another_stores_only_what_is_new(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    file = TraceFile(path)
    first = Recorder(file, run="one")
    first.run_started([Message.user("first question")], interface="x")
    first.delta("text", "first ans")
    before = first.ended("cancelled")
    second = Recorder(file, run="two")
    asked = [*before.conversation, Message.user("second question")]
    second.run_started(asked, interface="x", continues=before)
    second.turn(Message.assistant("second answer"))
    whole = second.ended("completed")
    file.close()

    read = read_traces(path)[1]

    assert [one.text for one in before.conversation] == ["first question", "first ans"]
    assert read.conversation == whole.conversation
    assert len(read.conversation) == 4
    assert read.started is not None
    assert [one.text for one in read.started.new_messages] == ["second question"]
    assert path.read_bytes().count(b"first question") == 1

    alone = TraceFile(tmp_path / "other.jsonl")
    Recorder(alone, run="three").run_started(asked, interface="x", continues=before)
    alone.close()
    (copied,) = read_traces(tmp_path / "other.jsonl")
    assert copied.conversation == asked
