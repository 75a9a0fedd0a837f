"""Redacts what libraries log about a session, in the context of that session only."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from plait._support.causes import without_secrets
from plait.client.transports.wire import Wire

_LOGGERS = (
    "httpx2",
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpcore2.proxy",
    "mcp.client.streamable_http",
    "websockets.client",
    "client",
)
"""They log whole URLs at info level, and headers at debug level; the last is the SDK's session."""

_wire: ContextVar[Wire | None] = ContextVar("plait_wire", default=None)


def log_as(wire: Wire) -> None:
    """Redact library logs of this context with the wire's redactor."""
    _wire.set(wire)


def _hide(record: logging.LogRecord) -> bool:
    """Redact a record of the session; every record passes the filter."""
    wire = _wire.get()
    if wire is None:
        return True
    record.msg, record.args = wire.redact(record.getMessage()), None
    if record.exc_info and record.levelno >= logging.WARNING:
        # It is about a message of the server; thousands of them would fill the disk.
        wire.noise_lines += 1
        record.exc_info = None
        return wire.noise_lines == 1
    if record.exc_info and record.exc_info[1] is not None:
        safe = without_secrets(record.exc_info[1], wire.redact)
        record.exc_info = (type(safe), safe, safe.__traceback__)
    return True


@contextmanager
def redacted_library_logs(wire: Wire) -> Generator[None]:
    """Redact library logs with the wire's redactor, in this task and those it starts.

    Records of other users of the same libraries in this process are not changed.
    """
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_hide)
    token = _wire.set(wire)
    try:
        yield
    finally:
        # A generator closed by the garbage collector ends in another context.
        with contextlib.suppress(ValueError):
            _wire.reset(token)
