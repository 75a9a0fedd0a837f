"""The log is off, and turned on by -v, --wire or PLAIT_DEBUG."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from plait._support.logs import (
    UNCUT,
    WIRE,
    configure_logging,
    hide_in_logs,
    levels_to_show,
    silence_other_logs,
    unknown_scopes,
)

DEBUG, INFO = logging.DEBUG, logging.INFO
ALL = {"plait": DEBUG, WIRE: DEBUG}


@pytest.mark.parametrize(
    ("verbosity", "debug", "wire", "expected"),
    [
        (0, "", None, {}),
        (1, "", None, {"plait": DEBUG, WIRE: INFO}),
        (1, "", "cut", ALL),
        (0, "*", None, ALL),
        (0, "*", "full", {"plait": DEBUG, WIRE: UNCUT}),
        (0, "", "cut", {WIRE: DEBUG}),
        (0, "", "full", {WIRE: UNCUT}),
        (0, "wire", None, {WIRE: DEBUG}),
        (0, "wire=full", None, {WIRE: UNCUT}),
        (1, "wire=full", "cut", {"plait": DEBUG, WIRE: UNCUT}),
        (
            0,
            "transports, connections",
            None,
            {"plait.client.transports": DEBUG, "plait.client.connections": DEBUG},
        ),
        (0, "plait.client.transports.auth", None, {"plait.client.transports.auth": DEBUG}),
        (0, "gateway", None, {"plait.gateway": DEBUG}),
        (0, "nonsense", None, {}),
    ],
)
def test_the_loggers_that_are_shown(
    verbosity: int, debug: str, wire: Any, expected: dict[str, int]
) -> None:
    assert levels_to_show(verbosity, {"PLAIT_DEBUG": debug}, wire) == expected


def test_very_verbose_shows_messages_and_named_libraries_and_never_the_root() -> None:
    shown = levels_to_show(2, {})

    assert shown.items() >= {**ALL, "mcp": DEBUG, "httpx2": DEBUG}.items()
    assert "" not in shown


@pytest.mark.parametrize(
    ("debug", "guesses"),
    [
        ("*,wire,wire=full,calls,plait.client", []),
        ("transprots", ["transports"]),
        ("wir", ["wire"]),
    ],
)
def test_an_unknown_scope_is_answered_with_the_nearest(debug: str, guesses: list[str]) -> None:
    sentences = unknown_scopes({"PLAIT_DEBUG": debug})

    assert len(sentences) == len(guesses)
    assert all(repr(guess) in one for guess, one in zip(guesses, sentences, strict=True))


@pytest.fixture
def quiet_again() -> Iterator[None]:
    last = logging.lastResort
    yield
    configure_logging(0, {})
    logging.lastResort = last


@pytest.mark.usefixtures("quiet_again")
def test_a_line_is_written_once_however_often_logging_is_configured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging(1, {})
    configure_logging(2, {})
    configure_logging(1, {})

    logging.getLogger("plait.client.transports").debug("hello")
    logging.getLogger(WIRE).debug("a message")

    shown = capsys.readouterr().err
    assert shown.count("hello") == 1
    assert "a message" not in shown


@pytest.mark.usefixtures("quiet_again")
def test_an_unknown_scope_warns_once(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(0, {"PLAIT_DEBUG": "conections"})
    configure_logging(0, {"PLAIT_DEBUG": "conections"})

    shown = capsys.readouterr().err
    assert shown.count("there is no log 'conections'") == 1
    assert "did you mean 'connections'" in shown


@pytest.mark.usefixtures("quiet_again")
def test_the_root_logger_is_left_alone() -> None:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)

    configure_logging(2, {"PLAIT_DEBUG": "*"}, wire="full")
    silence_other_logs()

    assert (list(root.handlers), root.level) == before


@pytest.mark.usefixtures("quiet_again")
def test_without_verbose_warnings_of_libraries_stay_silent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    silence_other_logs()
    configure_logging(0, {})

    logging.getLogger("plait.client.transports").warning("hello")

    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("quiet_again")
def test_a_secret_is_hidden_in_the_log_of_every_library(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(2, {})
    hide_in_logs(["hunter2"])

    logging.getLogger("httpx2.some").debug("sent %s", "hunter2")

    assert capsys.readouterr().err.endswith("httpx2.some: sent ***\n")
