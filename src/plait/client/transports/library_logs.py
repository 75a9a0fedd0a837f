"""Keeping secrets out of what the libraries below write to their own logs about a session.

They write whole URLs at the level of information, and headers at that of debugging. Other users of
the same libraries in this process are left alone.
"""

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
)

_wire: ContextVar[Wire | None] = ContextVar("plait_wire", default=None)


def _hide(record: logging.LogRecord) -> bool:
    """Take the secrets of the session out of a record; every record may pass."""
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
    """Hide what the wire hides, in this task and those that it starts meanwhile."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_hide)
    token = _wire.set(wire)
    try:
        yield
    finally:
        # A generator that is closed by the collector ends in another context.
        with contextlib.suppress(ValueError):
            _wire.reset(token)
