"""Servers as processes of a test."""

from __future__ import annotations

import subprocess
import sys

import anyio
import httpx2
import psutil
import pytest

from plait.testing import ServerProcess, eventually, running_server

pytestmark = pytest.mark.anyio

QUICK = """
import http.server, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
address = ("127.0.0.1", int(sys.argv[1]))
server = http.server.HTTPServer(address, http.server.SimpleHTTPRequestHandler)
print(f"child {child.pid}\\nlistening on http://127.0.0.1:{server.server_port}/x", flush=True)
server.serve_forever()
"""


def quick_server() -> ServerProcess:
    return ServerProcess([sys.executable, "-c", QUICK, "{port}"])


def child_of(server: ServerProcess) -> int:
    return int(server.log.rsplit("child ", 1)[1].split()[0])


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_a_killed_server_takes_its_children_along_and_restarts_on_its_port() -> None:
    with quick_server() as server:
        url, pid, child = server.url, server.pid, child_of(server)
        server.kill()
        assert not server.is_running
        assert server.exit_code == -9
        await eventually(lambda: is_gone(child))
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(url)

        server.restart()
        assert server.url == url
        assert server.pid != pid
        assert httpx2.get(url).status_code == 404
        last_child = child_of(server)

    await eventually(lambda: is_gone(last_child))


def test_a_suspended_server_does_not_answer_until_it_is_resumed() -> None:
    with quick_server() as server:
        server.suspend()
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.get(server.url, timeout=0.2)
        server.resume()
        assert httpx2.get(server.url, timeout=5).status_code == 404
        server.suspend()
        # A suspended server can be stopped, too.


def test_a_server_that_does_not_start_is_reported_with_its_log() -> None:
    server = ServerProcess([sys.executable, "-c", "import sys; sys.exit('no disk left')"])

    with pytest.raises(RuntimeError, match="no disk left") as caught:
        server.start()

    assert "ended with 1" in str(caught.value)


def test_a_server_that_is_never_ready_is_killed() -> None:
    server = ServerProcess([sys.executable, "-c", "import time; time.sleep(600)"])
    server.launch()

    with pytest.raises(RuntimeError, match=r"not ready in 0\.3 s"):
        server.wait_until_ready(0.3)

    assert not server.is_running


async def test_servers_end_with_the_test_run_that_started_them() -> None:
    program = """
import plait.testing, time
server = plait.testing.running_server().start()
print(server.pid, flush=True)
time.sleep(600)
"""
    async with await anyio.open_process([sys.executable, "-c", program]) as run:
        assert run.stdout is not None
        pid = int(await run.stdout.receive())
        assert not is_gone(pid)
        run.kill()

    await eventually(lambda: is_gone(pid))


def test_the_helpers_import_neither_mcp_nor_pytest() -> None:
    program = "import sys, plait.testing; print('mcp' in sys.modules, 'pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.split() == [b"False", b"False"]


async def test_a_module_may_share_a_server(mcp_test_server: ServerProcess) -> None:
    assert mcp_test_server.is_running
    assert running_server().port == 0
