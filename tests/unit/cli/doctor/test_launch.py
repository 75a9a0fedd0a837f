"""What a launcher was doing, from when its process had children."""

import pytest

from plait.cli.doctor.launch import Launch
from plait.client.config.servers import HttpServer, StdioServer


def launch_with(*samples: tuple[float, bool]) -> Launch:
    """Return a launch with the samples: seconds, and whether there were children."""
    launch = Launch("npx")
    for seconds, has_children in samples:
        launch.watched_seconds = seconds
        launch._note(has_children)
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
    assert Launch.of(StdioServer(command="/usr/bin/npx")) is not None
    assert Launch.of(StdioServer(command="uvx.exe")) is not None
    assert Launch.of(StdioServer(command="python")) is None
    assert Launch.of(HttpServer(url="http://localhost/mcp")) is None
