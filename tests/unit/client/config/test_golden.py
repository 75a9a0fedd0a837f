"""What people read when their configuration is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import external_file

from plait.client.config.read import read_config
from plait.errors import ConfigError

GOLDEN = Path(__file__).parent / "golden"

BROKEN = sorted(path.name for path in GOLDEN.glob("*.json"))


def report_on(name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read_config(name, environ={})
    return str(caught.value).replace(str(GOLDEN), "<folder>")


def test_every_broken_config_is_explained_as_agreed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)

    reports = "\n\n".join(report_on(name) for name in BROKEN)

    assert len(BROKEN) >= 25
    assert reports + "\n" == external_file("golden/expected.txt")


def test_no_report_holds_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOLDEN)

    assert "CANARY-SECRET" in "".join((GOLDEN / name).read_text() for name in BROKEN)
    assert "CANARY-SECRET" not in "".join(report_on(name) for name in BROKEN)


@pytest.mark.parametrize("name", BROKEN)
def test_every_problem_names_the_file_and_has_a_code(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(GOLDEN)

    with pytest.raises(ConfigError) as caught:
        read_config(name, environ={})

    assert caught.value.problems
    for problem in caught.value.problems:
        assert problem.file is not None
        assert problem.file.startswith(name)
        assert problem.code.replace("_", "").isalpha()
