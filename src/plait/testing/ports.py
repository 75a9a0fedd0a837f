"""Local TCP ports for tests: free ones, and ones that refuse or never answer."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Generator
from contextlib import contextmanager

from plait._support.local_server import listen

_PORTS = range(15_000, 32_000)
"""Below the ephemeral range of Linux.

A client that retries a closed ephemeral port may get it as its own source port and connect to
itself; and the port of a killed server may be taken before its restart.
"""


def bind(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """Return a listening socket; port 0 takes a free one."""
    if port:
        return listen(host, port)
    for candidate in random.sample(_PORTS, 100):
        try:
            return listen(host, candidate)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"no free port between {_PORTS[0]} and {_PORTS[-1]}")


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port without a listener; connecting to it is refused."""
    with bind(host) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def blackhole(host: str = "127.0.0.1") -> Generator[int]:
    """Listen on a port that accepts connections and never answers; yields the port."""
    # The kernel completes handshakes for the backlog; nothing accepts or reads.
    with bind(host) as listener:
        yield int(listener.getsockname()[1])
