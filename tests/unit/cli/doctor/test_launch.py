"""What a launcher was doing, from when it had started the server."""

import subprocess
import time
from pathlib import Path

import pytest

from plait.cli.diagnosis import Launch, _has_started_server
from plait.client.config.servers import HttpServer, StdioServer


def launch_with(*samples: tuple[float, bool]) -> Launch:
    """Return a launch with the samples: seconds, and whether the server was a child."""
    launch = Launch("npx")
    for seconds, has_server in samples:
        launch.watched_seconds = seconds
        launch._note(has_server)
    return launch


@pytest.mark.parametrize(
    ("samples", "started"),
    [
        ([(1, False), (2, False)], None),
        ([(1, False), (2, True), (3, True)], 2),
        # A helper that ends at once is not the server.
        ([(1, True), (1.1, False), (6, True), (7, True)], 6),
        ([(1, True), (1.5, False), (4, False)], None),
        # The server ends before its launcher, when both are stopped.
        ([(1, True), (2.5, True), (20, False)], 1),
    ],
)
def test_the_server_is_started_once_a_child_stays(
    samples: list[tuple[float, bool]], started: float | None
) -> None:
    assert launch_with(*samples).started_seconds == started


def test_only_launchers_are_watched() -> None:
    assert Launch.for_server(StdioServer(command="/usr/bin/npx")) is not None
    assert Launch.for_server(StdioServer(command="uvx.exe")) is not None
    assert Launch.for_server(StdioServer(command="python")) is None
    assert Launch.for_server(HttpServer(url="http://localhost/mcp")) is None


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are read from /proc")
def test_a_script_that_starts_the_real_launcher_has_not_started_the_server(tmp_path: Path) -> None:
    shim, real, downloading = tmp_path / "npx", tmp_path / "npx-cli.sh", tmp_path / "downloading"
    shim.write_text(f"sh {real}; true")
    real.write_text(f"touch {downloading}; read downloaded; cat; true")
    with subprocess.Popen(["sh", shim], stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        while not downloading.exists():
            time.sleep(0.01)
        assert not _has_started_server(process.pid)
        process.stdin.write(b"downloaded\n")
        process.stdin.flush()
        until = time.monotonic() + 30
        while not _has_started_server(process.pid):
            assert time.monotonic() < until
            time.sleep(0.01)
        process.stdin.close()
