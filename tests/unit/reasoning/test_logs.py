"""The log of a server, as the settings ask for it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from plait.reasoning.serving.service import log_to_stderr


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

    logging.getLogger("plait.reasoning.x").info("said %s", "so")
    logging.getLogger("plait.reasoning.x").debug("not said")

    (line,) = capsys.readouterr().err.splitlines()
    said = json.loads(line)
    assert (said["level"], said["message"]) == ("info", "said so")


def test_secrets_are_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_stderr("warn", "pretty")

    logging.getLogger("plait.reasoning").warning("Authorization: Bearer abcdefghijklmnop1234")

    assert "abcdefghijklmnop1234" not in capsys.readouterr().err
