"""The parts of the fault server and of tests around it: options, noise, state and ports."""

from __future__ import annotations

import io
import json
from math import inf
from pathlib import Path
from typing import get_args

import pytest

from plait.testing import StateDir
from plait.testing.faults.fault_options import FaultOptions, NoiseKind, flags_from_options, parse
from plait.testing.faults.fault_server import BAD_UTF8, BANNER, BOM, HALF, NoisyStdout, noisy_chunks
from plait.testing.ports import worker_ports

LINE = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": "é"}}, ensure_ascii=False) + "\n"
DATA = LINE.encode()


def test_options_survive_the_way_through_the_command_line(tmp_path: Path) -> None:
    options = FaultOptions(
        stateless=True,
        json_response=False,
        state_dir=tmp_path,
        noise=["crlf", "half"],
        stderr_line=["one two", "--three"],
        exit_after=3,
        exit_code=7,
        http_status="503:2",
        http_status_on="call",
        retry_after=1,
        www_authenticate='Bearer realm="x y"',
        cut_sse=True,
        delay=0.5,
    )
    settings = parse(flags_from_options(options))

    read: dict[str, object] = {
        **options,
        "noise": {"crlf", "half"},
        "stderr_line": ("one two", "--three"),
        "http_status": (503, 2),
        "retry_after": "1",
        "cut_sse": inf,
        "sessions_file": tmp_path / "sessions",
    }
    assert {name: getattr(settings, name) for name in read} == read
    assert [parse(flags).cut_sse for flags in ([], ["--cut-sse"], ["--cut-sse=2"])] == [0, inf, 2]


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (["--noise=loud"], "unknown noise loud"),
        (["--transport=http", "--noise=crlf"], "needs --transport stdio"),
        (["--legacy-only", "--modern-only"], "exclude each other"),
        (["--http-status=often"], "CODE or CODE:TIMES"),
    ],
)
def test_a_mistake_on_the_command_line_is_named(
    flags: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(flags)

    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kinds", "first", "chunks"),
    [
        ([], True, [DATA]),
        (["banner", "bom"], True, [BOM, BANNER, DATA]),
        (["banner", "bom"], False, [DATA]),
        (["half"], False, [HALF, DATA]),
        (["utf8"], False, [BAD_UTF8, DATA]),
        (["split"], False, [DATA[: len(DATA[:-1]) // 2], DATA[len(DATA[:-1]) // 2 :]]),
        (["crlf"], False, [DATA[:-1] + b"\r\n"]),
    ],
)
def test_noise_is_written_around_a_message(
    kinds: list[NoiseKind], first: bool, chunks: list[bytes]
) -> None:
    assert noisy_chunks(LINE, kinds, first=first) == chunks


def test_with_all_noise_the_message_is_there_and_its_end_is_told() -> None:
    assert DATA[:-1] in b"".join(noisy_chunks(LINE, get_args(NoiseKind), first=True))
    with pytest.raises(UnicodeDecodeError):
        BAD_UTF8.decode()
    wire, sizes = io.BytesIO(), list[int]()
    stdout = NoisyStdout(wire, ["banner"], lambda: sizes.append(len(wire.getvalue())))

    stdout.write(LINE)
    stdout.write(LINE)

    assert wire.getvalue() == BANNER + DATA * 2
    assert sizes == [len(BANNER + DATA), len(BANNER + DATA * 2)]


def test_the_state_that_servers_and_tests_share_is_read_back_in_order(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    assert state.ledger() == []
    for name, line in (("ledger", "5"), ("ledger", "7"), ("starts", "100")):
        state.append(name, line)
    for line in ("connect 1", "discover 1", "initialize 2", "initialize 3"):
        state.append("sessions", line)

    assert (state.ledger(), state.starts()) == (["5", "7"], [100])
    assert len(state.sessions()) == 4
    assert state.sessions("initialize") == ["initialize 2", "initialize 3"]


def test_workers_share_no_port_and_together_they_have_all() -> None:
    def ports(worker: str) -> set[int]:
        return {*worker_ports({"PYTEST_XDIST_WORKER": worker, "PYTEST_XDIST_WORKER_COUNT": "4"})}

    slices = [ports(f"gw{number}") for number in range(4)]
    assert sum(map(len, slices)) == len(set.union(*slices))
    assert set.union(*slices) == {*worker_ports({})} == {*range(15_000, 32_000)}
    # One that replaces a crashed worker, and one with a name of its own, have ports, too.
    assert ports("gw9") == slices[1]
    assert len(ports("remote")) > 1000
