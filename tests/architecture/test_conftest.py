"""What holds for every test: it fails if it leaves something running, and leaves no trace."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from plait.client.catalog.listing import cache_folder
from plait.client.config.raw_value import state_folder
from plait.client.transports.auth.stores import token_folder

LEAKS = """
import subprocess, sys, threading

import pytest

def test_a_process():
    subprocess.Popen(["sleep", "5"])

def test_a_process_of_a_process():
    code = "import subprocess; subprocess.Popen(['sleep', '5']).wait()"
    subprocess.Popen([sys.executable, "-c", code])

def test_a_thread():
    threading.Thread(target=threading.Event().wait, name="forgotten", daemon=True).start()

@pytest.fixture(scope="module")
def shared():
    with subprocess.Popen(["sleep", "5"]) as process:
        yield process
        process.kill()

def test_a_process_of_the_module(shared):
    assert shared.poll() is None

def test_nothing():
    pass
"""


def test_a_test_that_leaves_something_behind_fails_and_not_the_next_one(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makeconftest("from tests import conftest; conftest.END_SECONDS = 0.5")
    pytester.makepyfile(test_leaks=LEAKS)

    result = pytester.runpytest_subprocess("-p", "tests.conftest", "-W", "ignore", timeout=60)

    result.assert_outcomes(passed=5, errors=3)
    result.stdout.fnmatch_lines([
        "* ERROR at teardown of test_a_process _*",
        "E * Failed: the test left behind: process * (sleep 5)",
        "* ERROR at teardown of test_a_process_of_a_process _*",
        "* ERROR at teardown of test_a_thread _*",
        "E * Failed: the test left behind: thread 'forgotten' in *",
    ])  # fmt: skip


def test_a_socket_that_nobody_closes_fails_the_test_that_opened_it(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    pytester.makepyfile("""
        import socket

        def test_a_socket():
            cycle = [socket.socket()]
            cycle.append(cycle)

        def test_nothing():
            pass
    """)

    result = pytester.runpytest_subprocess("-p", "tests.conftest", "-W", "error", timeout=60)

    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["* ERROR at teardown of test_a_socket _*"])


def test_the_folders_of_whoever_runs_the_tests_are_not_used() -> None:
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    folders = Path.home(), state_folder(), cache_folder(), token_folder()

    assert not [folder for folder in folders if folder.is_relative_to(home)]
