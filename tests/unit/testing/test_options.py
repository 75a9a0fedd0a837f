"""The options of the fault server, from keywords to flags to settings."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from plait.testing.faults.options import FaultOptions, flags_from_options, parse


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

    assert settings.stateless
    assert not settings.json_response
    assert settings.noise == {"crlf", "half"}
    assert settings.stderr_line == ("one two", "--three")
    assert (settings.exit_after, settings.exit_code) == (3, 7)
    assert settings.http_status == (503, 2)
    assert settings.http_status_on == "call"
    assert settings.retry_after == "1"
    assert settings.www_authenticate == 'Bearer realm="x y"'
    assert settings.cut_sse == inf
    assert settings.delay == 0.5
    assert settings.sessions_file == tmp_path / "sessions"


@pytest.mark.parametrize(
    ("flags", "times"),
    [([], 0), (["--cut-sse"], inf), (["--cut-sse=2"], 2)],
)
def test_answers_are_cut_never_always_or_so_many_times(flags: list[str], times: float) -> None:
    assert parse(flags).cut_sse == times


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
