"""The log of a server, as the settings ask for it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from dirty_equals import IsJson, IsPartialDict

from plait.reasoning.backends.port import fields
from plait.reasoning.backends.settings import LogFormat
from plait.reasoning.serving.service import announce, log_to_stderr


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Leave the logger as it was."""
    logger = logging.getLogger("plait.reasoning")
    handlers, level = list(logger.handlers), logger.level
    yield
    logger.handlers[:] = handlers
    logger.setLevel(level)


def test_a_line_for_a_program_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("info", "json")

    logging.getLogger("plait.reasoning.x").info("it is %s", "so")
    logging.getLogger("plait.reasoning.x").debug("not shown")

    (line,) = capsys.readouterr().err.splitlines()
    entry = json.loads(line)
    assert (entry["level"], entry["message"]) == ("info", "it is so")


@pytest.mark.parametrize(
    ("form", "expected"),
    [("pretty", "it runs"), ("json", IsJson(IsPartialDict(level="info", message="it runs")))],
)
def test_what_is_shown_at_every_level_has_the_format_of_the_log(
    form: LogFormat, expected: object, capsys: pytest.CaptureFixture[str]
) -> None:
    log_to_stderr("error", form)

    announce("it runs", form)

    assert capsys.readouterr().err.splitlines() == [expected]


@pytest.mark.parametrize("form", ["pretty", "json"])
def test_secrets_are_hidden(form: LogFormat, capsys: pytest.CaptureFixture[str]) -> None:
    secret = "Authorization: Bearer abcdefghijklmnop1234"
    log_to_stderr("warn", form)

    try:
        raise ValueError(secret)
    except ValueError:
        facts = fields({"reply": secret, "attempt": 2})
        logging.getLogger("plait.reasoning").warning(secret, exc_info=True, extra=facts)

    shown = capsys.readouterr().err
    assert "ValueError" in shown
    assert "abcdefghijklmnop1234" not in shown
