"""Ctrl-C ends a command at once and leaves no process behind."""

import signal
import time
from collections.abc import Callable

import psutil
import pytest

from .conftest import Plait, ShopConfig


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("extra", [(), ("--json",)])
def test_an_interrupted_call_ends_with_130_and_no_child_is_left(
    plait: Plait, shop_config: ShopConfig, extra: tuple[str, ...]
) -> None:
    marker = plait.folder / "started"
    plait.configure(shop=shop_config(SHOP_MARKER=str(marker)))
    process = plait.start("call", "shop", "slow", "seconds=60", *extra)
    wait_until(lambda: marker.exists() and marker.read_text() != "")
    server = int(marker.read_text())

    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)

    assert process.returncode == 130, stderr
    assert stdout == ""
    assert stderr.rstrip().endswith("interrupted")
    assert "Traceback" not in stderr
    wait_until(lambda: not psutil.pid_exists(server), 5)


def test_a_reader_that_goes_away_is_no_failure(plait: Plait, shop_config: ShopConfig) -> None:
    plait.configure(shop=shop_config())
    process = plait.start("tools", "--full")
    assert process.stdout is not None
    process.stdout.close()

    _, stderr = process.communicate(timeout=60)

    assert "Traceback" not in stderr
    assert "BrokenPipe" not in stderr
