"""The log is off, and turned on by -v or PLAIT_DEBUG."""

import logging
from collections.abc import Iterator

import pytest

from plait._support.logs import configure_logging, hide_in_logs, loggers_to_show


@pytest.mark.parametrize(
    ("verbosity", "debug", "expected"),
    [
        (0, "", set()),
        (1, "", {"plait"}),
        (2, "", {""}),
        (0, "*", {"plait"}),
        (0, "transports, connections", {"plait.client.transports", "plait.client.connections"}),
        (0, "plait.client.transports", {"plait.client.transports"}),
        (1, "transports", {"plait"}),
    ],
)
def test_the_loggers_that_speak(verbosity: int, debug: str, expected: set[str]) -> None:
    assert loggers_to_show(verbosity, {"PLAIT_DEBUG": debug}) == expected


@pytest.fixture
def quiet_again() -> Iterator[None]:
    yield
    configure_logging(0, {})
    logging.getLogger("plait").setLevel(logging.NOTSET)
    logging.getLogger().setLevel(logging.WARNING)


@pytest.mark.usefixtures("quiet_again")
def test_a_line_is_written_once_however_often_logging_is_configured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging(1, {})
    configure_logging(2, {})
    configure_logging(1, {})

    logging.getLogger("plait.client.transports").debug("hello")

    assert capsys.readouterr().err.count("hello") == 1


@pytest.mark.usefixtures("quiet_again")
def test_without_verbose_warnings_of_libraries_stay_silent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging(0, {})

    logging.getLogger("plait.client.transports").warning("hello")

    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("quiet_again")
def test_a_secret_is_hidden_whoever_logs_it(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(2, {})
    hide_in_logs(["hunter2"])

    logging.getLogger("some.library").debug("sent %s", "hunter2")

    assert capsys.readouterr().err.endswith("some.library: sent ***\n")
