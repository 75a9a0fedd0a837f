"""The log of the server on standard error, set by `LOG_LEVEL` and `LOG_FORMAT`."""

from __future__ import annotations

import json
import logging
import sys
from typing import Final

from plait._support.redact import Redactor
from plait.reasoning.backends.settings import LogFormat, LogLevel

_LEVELS: Final[dict[LogLevel, int]] = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}


class _Pretty(logging.Formatter):
    """Formats a record for a person."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s", "%H:%M:%S")
        self._redact = Redactor()

    def format(self, record: logging.LogRecord) -> str:
        return self._redact(super().format(record))


class _Json(_Pretty):
    """Formats a record for a program."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redact(record.getMessage()),
        }
        if record.exc_info:
            fields["exception"] = self._redact(self.formatException(record.exc_info))
        return json.dumps(fields, ensure_ascii=False)


def log_to_stderr(level: LogLevel, form: LogFormat) -> None:
    """Write the log of the server to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if form == "json" else _Pretty())
    logger = logging.getLogger("plait.reasoning")
    logger.handlers[:] = [handler]
    logger.setLevel(_LEVELS[level])
