"""What holds for every test: which ones `make test` runs, no trace on the machine, no leftovers."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from hypothesis import settings

from tests import nursery

pytest_plugins = ["plait.testing.fixtures", "pytester"]

# For detailed assertion messages in inherited tests.
pytest.register_assert_rewrite(
    "tests.integration.agents.agent_suite",
)

# A busy machine makes single examples slow; the time limit per test still holds.
# Thirty examples keep the property tests within a minute; new ones are drawn in every run.
settings.register_profile("plait", deadline=None, max_examples=30)
settings.load_profile("plait")

# Weights that happen to be on this machine must not change what a test sees.
os.environ["PLAIT_MODELS"] = os.devnull

LONG = Path(__file__).parent / "long.txt"
"""The tests that `make test` leaves to `make test-all`: files, functions or single cases."""

END_SECONDS = 45.0
"""How long a thread or process may take to end after its test.

What is left behind ends never. What is about to end, such as a thread that imports a package,
takes seconds where every core has other work too.
"""


def pytest_configure(config: pytest.Config) -> None:
    """Give tests, and the programs they start, a home and temporary files of their own."""
    # A shell has its background jobs ignore it, and so would the programs that tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="plait-"))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    for name in ("CONFIG", "CACHE", "DATA", "STATE"):
        os.environ.pop(f"XDG_{name}_HOME", None)  # each is below the home then
    for name, variable in (("home", "HOME"), ("tmp", "TMPDIR")):
        (folder / name).mkdir()
        os.environ[variable] = str(folder / name)
    tempfile.tempdir = None  # read TMPDIR again
    gc.disable()  # until everything is collected: there is no garbage among modules and tests


def pytest_collection_finish() -> None:
    """Leave modules and tests out of what is searched for garbage: it takes half a second."""
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a module of which `make test` runs nothing."""
    if config.getoption("markexpr") != "not long" or collection_path.suffix != ".py":
        return None
    return _node_id(collection_path, config) in _long_tests() or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of the list as long, so that `-m` selects them, or the others."""
    listed, found = _long_tests(), set[str]()
    for item in items:
        names = {item.nodeid, item.nodeid.split("[")[0], item.nodeid.split("::")[0]}
        if names & listed:
            item.add_marker(pytest.mark.long)
            found |= names
    whole = config.args == config.getini("testpaths") and not config.getoption("keyword")
    if whole and config.getoption("markexpr") == "long" and (stale := listed - found):
        raise pytest.UsageError(
            f"{LONG.name} lists tests that are gone: {', '.join(sorted(stale))}"
        )


@functools.cache
def _long_tests() -> frozenset[str]:
    lines = LONG.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def _node_id(path: Path, config: pytest.Config) -> str:
    return path.relative_to(config.rootpath).as_posix()


@pytest.fixture
def anyio_backend() -> str:
    """Run async tests on asyncio, the only backend there is."""
    return "asyncio"


class _Running(NamedTuple):
    """Threads of this process, and the processes that it and its children have started."""

    threads: frozenset[threading.Thread]
    processes: frozenset[int]

    @classmethod
    def now(cls) -> _Running:
        return cls(frozenset(threading.enumerate()), frozenset(_descendants(os.getpid())))

    def __sub__(self, other: _Running) -> _Running:
        return _Running(self.threads - other.threads, self.processes - other.processes)

    def names(self) -> list[str]:
        """Describe what still runs of it."""
        # A loop that several tests share keeps its worker threads for the next of them.
        threads = [one for one in self.threads if one.name != "AnyIO worker thread"]
        frames = sys._current_frames()
        names: list[str] = []
        for thread in threads:
            frame = frames.get(thread.ident or 0)
            if thread.is_alive() and frame is not None:
                names.append(f"thread {thread.name!r} in {frame.f_code.co_qualname}")
        for pid in self.processes - nursery.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                if process.status() != psutil.STATUS_ZOMBIE:
                    names.append(f"process {pid} ({' '.join(process.cmdline())})")
        return names


_shared = _Running(frozenset(), frozenset())
"""What fixtures of modules and of the session have started, which outlives a test."""


def _share_since(before: _Running) -> None:
    global _shared
    started = _Running.now() - before
    _shared = _Running(_shared.threads | started.threads, _shared.processes | started.processes)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
    """Remember what a fixture starts for more than one test."""
    if fixturedef.scope == "function":
        return (yield)
    before = _Running.now()
    value = yield
    _share_since(before)
    return value


@pytest.fixture
def heals_shared_servers(nothing_is_left_behind: _Running) -> Generator[None]:
    """Let what a test starts outlive it, because it belongs to a client of the module."""
    yield
    _share_since(nothing_is_left_behind)


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Generator[_Running]:
    """Fail the test that leaves a thread, process or socket behind, not a later one."""
    before, sockets = _Running.now(), _open_sockets()
    yield before
    if _open_sockets() - sockets:
        gc.collect()  # a socket that nobody closed warns when it is collected, in this test
    ends_at = time.monotonic() + END_SECONDS
    for polls in itertools.count():
        left = (_Running.now() - before - _shared).names()
        if not left:
            break
        if time.monotonic() > ends_at:
            pytest.fail(f"the test left behind: {', '.join(left)}")
        if polls % 50 == 10:
            gc.collect()  # a client that was dropped is closed when it is collected
        time.sleep(0.01)


def _open_sockets() -> set[str]:
    found: set[str] = set()
    for descriptor in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(OSError):  # closed meanwhile
            found.add(str(descriptor.readlink()))
    return {target for target in found if target.startswith("socket:")}


def _descendants(pid: int) -> set[int]:
    """Return the children of a process, and theirs.

    Read from the kernel: `psutil` looks at every process of the machine, which takes longer than
    most tests.
    """
    if not Path("/proc/self/task").exists():
        return {child.pid for child in psutil.Process(pid).children(recursive=True)}
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        with contextlib.suppress(OSError):  # a thread or process that has just ended
            for children in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
                started = {int(child) for child in children.read_text().split()}
                waiting += started
                found |= started
    return found
