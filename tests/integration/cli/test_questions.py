"""What a person is asked on a terminal, and what happens where nobody can be asked."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait.testing import ServerProcess
from tests.nursery import python

from .conftest import Plait

pytestmark = pytest.mark.timeout(120)

FILLED = '{"name":"Ann","size":"large","count":3,"warm":false,"note":""}'


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The server that asks, started once: it speaks both eras."""
    script = str(Path(__file__).with_name("asking_server.py"))
    address = "http://127.0.0.1:{port}/mcp"
    command = [*python(), script, "{port}"]
    with ServerProcess(command, url=address, ready="Uvicorn running on") as server:
        yield server.url


@pytest.fixture(params=["legacy", "2026-07-28"])
def era(request: pytest.FixtureRequest) -> str:
    """One of the eras."""
    return request.param


@pytest.fixture
def desk(plait: Plait, url: str, era: str) -> Plait:
    """The program, with the server configured for one era."""
    plait.configure(desk={"url": url, "protocol": era})
    return plait


class Terminal:
    """A program on a terminal, with stdout in a pipe, and a person who waits for its prompts."""

    def __init__(self, plait: Plait, *arguments: str, **environment: str) -> None:
        self.screen = ""
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*python(), "-m", "plait.cli", *arguments],
            cwd=plait.folder,
            env={**plait.environment, "TERM": "dumb", "COLUMNS": "200", **environment},
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=slave,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: _take_terminal(slave),
        )
        os.close(slave)

    def say(self, prompt: str, answer: str) -> None:
        """Wait for the end of the screen to be a prompt, and type after it."""
        while not self.screen.endswith(prompt):
            self._read()
        os.write(self._master, answer.encode())

    def press(self, text: str, keys: str) -> None:
        """Wait for a text to be on the screen, and type."""
        while text not in self.screen:
            self._read()
        os.write(self._master, keys.encode())

    def end(self) -> tuple[int, str]:
        """Wait for the end, and return the exit code and stdout."""
        try:
            while True:
                self._read()
        except OSError:  # the other end of the terminal is closed
            pass
        os.close(self._master)
        stdout, _ = self.process.communicate(timeout=30)
        return self.process.returncode, stdout

    def _read(self) -> None:
        data = os.read(self._master, 65536)
        if not data:
            raise OSError
        self.screen += re.sub(r"\x1b\[[0-9;]*m", "", data.decode()).replace("\r\n", "\n")


def _take_terminal(slave: int) -> None:
    import fcntl
    import termios

    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)


def fill_in(terminal: Terminal) -> None:
    terminal.say("\nname: ", "A\n")
    terminal.say("\nname: ", "\n")
    terminal.say("\nname: ", "Ann\n")
    terminal.say("\nsize: ", "3\n")
    terminal.say("\nsize: ", "2\n")
    terminal.say("\ncount: ", "many\n")
    terminal.say("\ncount: ", "10\n")
    terminal.say("\ncount: ", "3\n")
    terminal.say("\nwarm: ", "n\n")
    terminal.say("\nnote: ", "\n")


def test_a_form_is_filled_in_on_the_terminal(desk: Plait) -> None:
    terminal = Terminal(desk, "call", "desk", "order", "item=tea", "--json")
    fill_in(terminal)
    terminal.say("send this to desk? [Y/n] ", "\n")
    code, stdout = terminal.end()

    assert code == 0
    assert json.loads(stdout)["content"][0]["text"] == f"tea: {FILLED}"
    shown = terminal.screen
    assert "question: desk/order asks\n  | How do you want your tea?\n" in shown
    assert "  | host: \\x1b[31mfake\n" in shown
    assert "name - Name: Who is it for? (2 characters or more)\n" in shown
    assert "  needs at least 2 characters\n" in shown
    assert "  a value is required\n" in shown
    assert "  1) small\n  2) large\n" in shown
    assert "  type a number from 1 to 2\n" in shown
    assert "(a whole number, at least 1, at most 9; optional; default 1)" in shown
    assert "  type a whole number\n" in shown
    assert "  must be at most 9\n" in shown
    assert "  size = large\n" in shown


def test_ctrl_c_during_a_question_ends_the_command(desk: Plait) -> None:
    terminal = Terminal(desk, "call", "desk", "order", "item=tea")
    terminal.say("\nname: ", "\x03")
    code, stdout = terminal.end()

    assert (code, stdout) == (130, "")
    assert terminal.screen.rstrip().endswith("interrupted")
    assert "Traceback" not in terminal.screen


@pytest.mark.parametrize(
    ("era", "typed", "action"),
    [("legacy", "y\n", "accept"), ("2026-07-28", "\n", "decline")],
)
def test_a_page_is_opened_only_with_consent(desk: Plait, typed: str, action: str) -> None:
    opened = desk.folder / "opened"
    browser = desk.folder / "browser.py"
    browser.write_text(f"import sys; open({str(opened)!r}, 'w').write(sys.argv[1])")
    terminal = Terminal(desk, "call", "desk", "pay", BROWSER=f"{sys.executable} {browser} %s")
    terminal.say("open it in the browser? [y/N] ", typed)
    code, stdout = terminal.end()

    assert (code, stdout) == (0, f"{action}\n")
    page = "https://pay.example.com@evil.example/pay?id=7"
    assert f"  {page}\n  host: evil.example\n" in terminal.screen
    assert (opened.read_text() if opened.exists() else None) == (
        page if action == "accept" else None
    )


@pytest.mark.parametrize("era", ["2026-07-28"])
def test_where_nobody_is_a_question_is_declined_and_says_how_to_answer(desk: Plait) -> None:
    asked = desk("call", "desk", "order", "item=tea", "--json")
    page = desk("call", "desk", "pay", "--no-input")

    assert json.loads(asked.stdout)["content"][0]["text"] == "tea: decline"
    (line,) = asked.stderr.splitlines()
    assert line.startswith("question: desk/order asks 'How do you want your tea? host: ")
    assert line.endswith("answer it with --answer name=VALUE --answer size=VALUE")
    assert "\x1b" not in line
    assert page.stdout == "decline\n"
    assert "https://pay.example.com@evil.example/pay?id=7; declined" in page.stderr


def answers(*words: str) -> list[str]:
    return [part for word in words for part in ("--answer", word)]


@pytest.mark.parametrize("era", ["legacy"])
def test_answers_may_be_given_beforehand(desk: Plait) -> None:
    done = desk(
        "call",
        "desk",
        "order",
        "item=tea",
        *answers("name=Ann", "size=large", "count=3", "warm=false"),
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, f"tea: {FILLED}\n", "")
