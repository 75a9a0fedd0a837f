"""Turns on plait's log: `-v`, `PLAIT_DEBUG="*"`, or `PLAIT_DEBUG=transports,connections`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Mapping
from typing import TextIO

from plait._support.redact import Redactor
from plait._support.sanitize import sanitize_for_terminal

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_CLIENT_ROOMS = frozenset({"calls", "catalog", "config", "connections", "transports"})


def loggers_to_show(verbosity: int, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the loggers to show at debug level; the root logger is `""`."""
    scopes = [part.strip() for part in environ.get("PLAIT_DEBUG", "").split(",")]
    if verbosity > 1:
        return frozenset({""})
    if verbosity == 1 or "*" in scopes:
        return frozenset({"plait"})
    return frozenset(_logger_name(part) for part in scopes if part)


def _logger_name(scope: str) -> str:
    """Return the logger of a package; those of the client go by their own names."""
    if scope == "plait" or scope.startswith("plait."):
        return scope
    return f"plait.client.{scope}" if scope in _CLIENT_ROOMS else f"plait.{scope}"


def configure_logging(verbosity: int, environ: Mapping[str, str] | None = None) -> None:
    """Send the chosen loggers, and no others, to stderr; safe to repeat."""
    root = logging.getLogger()
    # Without a handler the logging module prints warnings by itself; commands report their own.
    if not any(isinstance(handler, logging.NullHandler) for handler in root.handlers):
        root.addHandler(logging.NullHandler())
    for logger, handler in _installed():
        logger.removeHandler(handler)
    for name in loggers_to_show(verbosity, os.environ if environ is None else environ):
        logger = logging.getLogger(name)
        logger.setLevel(logging.DEBUG)
        logger.addHandler(_StderrHandler())


def show_debug_log(environ: Mapping[str, str] = os.environ) -> None:
    """Turn on the logs in `PLAIT_DEBUG`, for a program without logging of its own."""
    if environ.get("PLAIT_DEBUG") and not _installed():
        configure_logging(0, environ)


def hide_in_logs(secrets: Iterable[str]) -> None:
    """Redact these values in the log of every library."""
    redact = Redactor(secrets)
    for _, handler in _installed():
        handler.redact = redact


def _installed() -> list[tuple[logging.Logger, _StderrHandler]]:
    root = logging.getLogger()
    loggers = (root, *map(logging.getLogger, list(root.manager.loggerDict)))
    return [
        (logger, handler)
        for logger in loggers
        for handler in logger.handlers
        if isinstance(handler, _StderrHandler)
    ]


class _StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to the current `sys.stderr`."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter(_FORMAT, datefmt="%H:%M:%S"))
        self.redact = Redactor()

    def format(self, record: logging.LogRecord) -> str:
        # Records quote servers, and go to terminals.
        return sanitize_for_terminal(self.redact(super().format(record)))

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)
