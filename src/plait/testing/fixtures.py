"""Pytest fixtures for the servers of this package.

Put `pytest_plugins = ["plait.testing.fixtures"]` into the top `conftest.py`.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import ExitStack
from typing import Protocol, Unpack, get_args

import pytest

from plait.client.transports.tape import Tape, TapeMode
from plait.testing import processes
from plait.testing.faults.fault_options import FaultOptions, Transport
from plait.testing.ports import blackhole
from plait.testing.processes import ServerProcess
from plait.testing.proxy import FaultProxy


class StartFaultServer(Protocol):
    """Start a fault server that ends with the test."""

    def __call__(
        self, transport: Transport = "http", **options: Unpack[FaultOptions]
    ) -> ServerProcess:
        """Start it and wait until it listens."""
        ...


class StartFaultProxy(Protocol):
    """Start a proxy in front of a port; it ends with the test."""

    def __call__(self, target_port: int, *, idle_seconds: float | None = None) -> FaultProxy:
        """Start it; its port is known when this returns."""
        ...


@pytest.fixture
def fault_server() -> Generator[StartFaultServer]:
    """Return a function that starts fault servers, with faults as keywords."""
    with ExitStack() as stack:

        def start(transport: Transport = "http", **options: Unpack[FaultOptions]) -> ServerProcess:
            return stack.enter_context(processes.fault_server(transport, **options))

        yield start


@pytest.fixture
def fault_proxy() -> Generator[StartFaultProxy]:
    """Return a function that starts a fault proxy in front of a port."""
    with ExitStack() as stack:

        def start(target_port: int, *, idle_seconds: float | None = None) -> FaultProxy:
            return stack.enter_context(FaultProxy(target_port, idle_seconds=idle_seconds))

        yield start


@pytest.fixture
def blackhole_port() -> Generator[int]:
    """Return a port that accepts connections and never answers."""
    with blackhole() as port:
        yield port


@pytest.fixture(scope="module")
def mcp_test_server() -> Generator[ServerProcess]:
    """Run the well-behaved test server over Streamable HTTP, one for the module."""
    with processes.running_server() as server:
        yield server


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that says when tapes are recorded."""
    parser.addoption(
        "--plait-record",
        choices=get_args(TapeMode),
        default="once",
        help="When `plait_tape` records MCP traffic; use none in CI.",
    )


@pytest.fixture
def plait_tape(request: pytest.FixtureRequest) -> Generator[Tape]:
    """Return the tape of this test: `tapes/<module>/<test>.jsonl` beside the test's file.

    Pass it as `record=`: it is recorded when there is none, and played from then on. What a test
    that fails has recorded is removed.
    """
    node: pytest.Item = request.node
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", node.name).strip("-")
    path = node.path.parent / "tapes" / node.path.stem / f"{name}.jsonl"
    mode: TapeMode = request.config.getoption("--plait-record") or "once"
    tape = Tape(path, mode=mode)
    failed_before = request.session.testsfailed
    yield tape
    if request.session.testsfailed > failed_before:
        tape.discard()
