"""Ctrl-C ends a command at once and leaves no process behind."""

import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import psutil
import pytest

from plait.viewer.forms import field_key
from tests.nursery import stdio_config

from .conftest import Plait, ShopConfig
from .test_questions import Terminal


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

    assert process.returncode == 0
    assert stderr == ""


def test_an_interrupted_viewer_ends_the_calls_that_wait_for_a_person(plait: Plait) -> None:
    plait.configure(faults=stdio_config())
    terminal = Terminal(plait, "view", ".", "--config", "mcp.json", "--allow-calls", "--port", "0")
    assert terminal.process.stdout is not None
    home, token = terminal.process.stdout.readline().strip().split("#token=")
    with (
        ThreadPoolExecutor(1) as threads,
        httpx.Client(base_url=home, headers={"X-Plait-View": "1"}, timeout=60) as client,
    ):
        assert client.post("/sign-in", content=token).status_code == 204
        wait_until(lambda: "tool-ask" in client.get("/servers/faults").text)
        ask = {"server": "faults", "tool": "ask", field_key("question"): "Which colour?"}
        call = threads.submit(client.post, "/servers/call", json=ask)
        wait_until(lambda: 'class="asks"' in client.get("/inbox/questions").text)

        terminal.press("Ctrl-C ends it", "\x03")
        code, _ = terminal.end()

    assert code == 130
    assert call.result().status_code == 503
    assert "Traceback" not in terminal.screen
    assert "ERROR" not in terminal.screen
