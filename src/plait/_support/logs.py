"""Turns on plait's log: `-v`, `--wire`, `PLAIT_DEBUG="*"`, or `PLAIT_DEBUG=transports,wire`."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, Literal, TextIO

from plait._support.redact import Redactor
from plait._support.sanitize import sanitize_for_terminal
from plait._support.suggestions import suggest_names

WireLog = Literal["cut", "full"]

WIRE: Final = "plait.wire"
"""The logger of the messages to and from servers."""
UNCUT: Final = logging.DEBUG - 5
"""The level of that logger at which messages are shown as a whole."""

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_CLIENT_ROOMS = frozenset({"calls", "catalog", "config", "connections", "transports"})
_ROOMS = frozenset({"agents", "client", "gateway", "langchain", "reasoning", "traces"})
_WIRE_SCOPES: Mapping[str, WireLog] = {"wire": "cut", "wire=full": "full"}
_LIBRARIES = (
    *("mcp", "httpx2", "httpcore2", "websockets", "asyncio", "anthropic", "openai"),
    *("claude_agent_sdk", "langchain", "langchain_core", "langgraph", "sqlalchemy", "alembic"),
)
"""What `-vv` shows beside plait; other libraries of the process keep their loggers."""


def levels_to_show(
    verbosity: int, environ: Mapping[str, str], wire: WireLog | None = None
) -> dict[str, int]:
    """Return the loggers to show, each from its level on."""
    scopes = _scopes(environ)
    levels = {_logger_name(scope): logging.DEBUG for scope in scopes if _is_known(scope)}
    everything = verbosity > 1 or "*" in scopes
    if verbosity or everything:
        levels["plait"] = logging.DEBUG
    if verbosity > 1:
        levels |= dict.fromkeys(_LIBRARIES, logging.DEBUG)
    wires = {wire, *(_WIRE_SCOPES.get(scope) for scope in scopes), "cut" if everything else None}
    if "full" in wires:
        levels[WIRE] = UNCUT
    elif "cut" in wires:
        levels[WIRE] = logging.DEBUG
    elif "plait" in levels:
        levels[WIRE] = logging.INFO
    return levels


def unknown_scopes(environ: Mapping[str, str]) -> list[str]:
    """Return a sentence about each scope of `PLAIT_DEBUG` that shows nothing."""
    known = sorted({*_CLIENT_ROOMS, *_ROOMS, *_WIRE_SCOPES, "*"})
    return [
        f"PLAIT_DEBUG: there is no log {scope!r}: {suggest_names(scope, known)}"
        for scope in _scopes(environ)
        if not _is_known(scope) and scope not in {"*", *_WIRE_SCOPES}
    ]


def _scopes(environ: Mapping[str, str]) -> list[str]:
    parts = (part.strip() for part in environ.get("PLAIT_DEBUG", "").split(","))
    return [part for part in parts if part]


def _is_known(scope: str) -> bool:
    name, rooms = _logger_name(scope), map(_logger_name, _CLIENT_ROOMS | _ROOMS)
    return name == "plait" or any(f"{name}.".startswith(f"{room}.") for room in rooms)


def _logger_name(scope: str) -> str:
    """Return the logger of a package; those of the client go by their own names."""
    if scope == "plait" or scope.startswith("plait."):
        return scope
    return f"plait.client.{scope}" if scope in _CLIENT_ROOMS else f"plait.{scope}"


def configure_logging(
    verbosity: int, environ: Mapping[str, str] | None = None, *, wire: WireLog | None = None
) -> None:
    """Send the chosen loggers, and no others, to stderr; safe to repeat.

    The root logger belongs to the program, and is left alone.
    """
    environ = os.environ if environ is None else environ
    for logger, handler in _installed():
        logger.removeHandler(handler)
        for changed in (logger, logging.getLogger(WIRE)):
            changed.setLevel(logging.NOTSET)
    levels = levels_to_show(verbosity, environ, wire)
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.setLevel(level)
        if not any(name.startswith(f"{outer}.") for outer in levels):
            logger.addHandler(_StderrHandler())
    for sentence in unknown_scopes(environ):
        _warn_once(sentence)


def silence_other_logs() -> None:
    """Keep the logging module from printing warnings of libraries; commands report their own."""
    logging.lastResort = logging.NullHandler()


def show_debug_log() -> None:
    """Turn on the logs in `PLAIT_DEBUG`, for a program without logging of its own."""
    if os.environ.get("PLAIT_DEBUG") and not _installed():
        configure_logging(0)


def hide_in_logs(secrets: Iterable[str]) -> None:
    """Redact these values in the log of every library."""
    redact = Redactor(secrets)
    for _, handler in _installed():
        handler.redact = redact


@cache
def _warn_once(sentence: str) -> None:
    record = logging.LogRecord("plait", logging.WARNING, "", 0, sentence, None, None)
    _StderrHandler().handle(record)


def _installed() -> list[tuple[logging.Logger, _StderrHandler]]:
    root = logging.getLogger()
    return [
        (logger, handler)
        for logger in map(logging.getLogger, list(root.manager.loggerDict))
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
