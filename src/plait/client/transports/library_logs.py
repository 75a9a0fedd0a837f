"""Redacts the log records of HTTP and MCP libraries about a session.

They log whole URLs at info level, and headers at debug level. Records of other users of the same
libraries in this process are not changed.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from plait._support.causes import without_secrets

if TYPE_CHECKING:
    from plait.client.transports.wire import Wire

_LOGGERS = (
    "httpx2",
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpcore2.proxy",
    "mcp.client.streamable_http",
    "websockets.client",
)

_wire: ContextVar[Wire | None] = ContextVar("plait_wire", default=None)


def _hide(record: logging.LogRecord) -> bool:
    """Redact a record of the session; every record passes the filter."""
    wire = _wire.get()
    if wire is None:
        return True
    record.msg, record.args = wire.redact(record.getMessage()), None
    if record.exc_info and record.exc_info[1] is not None:
        safe = without_secrets(record.exc_info[1], wire.redact)
        record.exc_info = (type(safe), safe, safe.__traceback__)
    return True


@contextmanager
def redacted_library_logs(wire: Wire) -> Generator[None]:
    """Redact library logs with the wire's redactor, in this task and those it starts."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_hide)
    token = _wire.set(wire)
    try:
        yield
    finally:
        # A generator closed by the garbage collector ends in another context.
        with contextlib.suppress(ValueError):
            _wire.reset(token)
