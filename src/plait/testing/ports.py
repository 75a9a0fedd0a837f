"""Local TCP ports for tests: free ones, and ones that refuse or never answer."""

from __future__ import annotations

import errno
import os
import random
import socket
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from plait._support.http_servers import listen

_PORTS = range(15_000, 32_000)
"""Below the ephemeral range of Linux.

A client that retries a closed ephemeral port may get it as its own source port and connect to
itself; and the port of a killed server may be taken before its restart.
"""


def worker_ports(environ: Mapping[str, str] = os.environ) -> range:
    """Return the ports of this worker of pytest-xdist, whose children inherit its variables.

    Each worker has ports of its own, so that none takes the port of a server that another worker
    has killed and starts again.
    """
    count = int(environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    # The worker is `gw3`, or what `--tx id=…` calls it; a restarted one gets the next number.
    number = int("".join(filter(str.isdecimal, environ.get("PYTEST_XDIST_WORKER", ""))) or 0)
    return _PORTS[number % count :: count]


def bind(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """Return a listening socket; port 0 takes a free one."""
    if port:
        return listen(host, port)
    ports = worker_ports()
    for candidate in random.sample(ports, min(100, len(ports))):
        try:
            return listen(host, candidate)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"no free port between {ports[0]} and {ports[-1]}")


def free_port() -> int:
    """Return a port without a listener; connecting to it is refused."""
    with bind() as listener:
        return int(listener.getsockname()[1])


@contextmanager
def blackhole() -> Generator[int]:
    """Listen on a port that accepts connections and never answers; yields the port."""
    # The kernel completes handshakes for the backlog; nothing accepts or reads.
    with bind() as listener:
        yield int(listener.getsockname()[1])
