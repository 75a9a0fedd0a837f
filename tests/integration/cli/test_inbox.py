"""The inbox of a viewer answers plait run, chat and serve; all of them are real processes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from plait.client.toolbox import Toolbox
from plait.testing import ServerProcess
from tests.nursery import python

from .conftest import Plait
from .test_interrupt import wait_until
from .test_questions import Terminal

pytestmark = pytest.mark.timeout(120)

FILLED = '{"name":"Ann","size":"large","count":3,"warm":false,"note":""}'
FORM = {"field.name": "Ann", "field.size": "large", "field.count": "3", "field.warm": "false"}


class Person:
    """Somebody who has a viewer open, and answers what waits in its inbox."""

    def __init__(self, pages: httpx.Client) -> None:
        self._pages = pages

    @property
    def cards(self) -> list[str]:
        """The questions that wait, as they are shown."""
        found = self._pages.get("/inbox/questions").text
        return [card for card in found.split("<section")[1:] if "data-call" in card]

    def answer(self, text: str, **entered: str) -> str:
        """Wait for a question with this text, answer it, and return it."""
        wait_until(lambda: any(text in card for card in self.cards))
        (card,) = self.cards
        (target,) = re.findall(r'data-target="([^"]*)"', card)
        reply = self._pages.post("/inbox/answer", json={**json.loads(unescape(target)), **entered})
        assert "answered" in reply.text
        return card


@contextmanager
def viewer(plait: Plait) -> Generator[Person]:
    """Run `plait view` in the home of the program, and open its inbox."""
    process = plait.start("view", ".", "--port", "0")
    assert process.stdout is not None
    home, token = process.stdout.readline().strip().split("#token=")
    with process, httpx.Client(base_url=home, headers={"X-Plait-View": "1"}) as pages:
        assert pages.post("/sign-in", content=token).status_code == 204
        person = Person(pages)
        assert person.cards == []  # from now on somebody looks
        yield person
        process.terminate()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that asks with forms and pages, in both eras."""
    script = str(Path(__file__).with_name("asking_server.py"))
    address = "http://127.0.0.1:{port}/mcp"
    command = [*python(), script, "{port}"]
    with ServerProcess(command, url=address, ready="Uvicorn running on") as server:
        yield server.url


def configure(plait: Plait, url: str, era: str, *asked: str, script: object = ()) -> None:
    server = {"url": url, "protocol": era}
    rules = [{"tool": f"desk/{tool}", "do": "ask"} for tool in asked]
    policy = {"rules": rules, "default": "allow"}
    config = {"mcpServers": {"desk": server}, "policy": policy}
    (plait.folder / "mcp.json").write_text(json.dumps(config))
    (plait.folder / "script.json").write_text(json.dumps(script))


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_a_run_has_a_form_and_a_page_answered_in_the_viewer(
    plait: Plait, url: str, era: str
) -> None:
    calls = [
        {"calls": [{"name": "order", "arguments": {"item": "tea"}}]},
        {"calls": [{"name": "pay", "arguments": {}}]},
        "Done.",
    ]
    configure(plait, url, era, script=calls)
    with viewer(plait) as person:
        run = plait.start("run", "Tea, please", "--model", "scripted:script.json")
        form = person.answer("How do you want your tea?", action="accept", **FORM)
        page = person.answer("Pay there.", action="accept")
        stdout, stderr = run.communicate(timeout=60)

    assert (run.returncode, stdout) == (0, "Done.\n"), stderr
    assert "plait: Tea, please" in form
    assert "evil.example" in page
    assert f"tea: {FILLED}" in stderr
    assert "accept" in stderr


def test_a_chat_has_calls_approved_for_its_session_edited_and_denied(
    plait: Plait, url: str
) -> None:
    def turn(tool: str, **arguments: Any) -> list[Any]:
        return [{"calls": [{"name": tool, "arguments": arguments}]}, f"{tool} is over."]

    script = [*turn("note", text="a"), *turn("note", text="b"), *turn("add", a=1, b=2)]
    script += [*turn("add", a=3, b=4), *turn("add", a=5, b=6)]
    configure(plait, url, "auto", "note", "add", script=script)
    with viewer(plait) as person, ThreadPoolExecutor(1) as threads:
        lines = "".join(f"message {number}\n" for number in range(5))
        words = ("chat", "--model", "scripted:script.json", "--trace", "chat.jsonl")
        chat = threads.submit(partial(plait, *words, stdin=lines))
        first = person.answer("desk/note", action="session", arguments='{"text": "a"}')
        person.answer("desk/add", action="approve", arguments='{"a": 1, "b": 2}')
        person.answer("desk/add", action="approve", arguments='{"a": 30, "b": 4}')
        person.answer("desk/add", action="deny", why="enough", arguments='{"a": 5, "b": 6}')
        done = chat.result()

    assert "message 0" in first
    assert done.returncode == 0, done.stderr
    for result in ("noted a", "noted b", "           3\n", "           34\n", "enough"):
        assert result in done.stderr
    assert done.stdout.count(" is over.\n") == 5


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_serve_has_questions_and_approvals_answered_in_the_viewer_for_a_client_that_cannot_ask(
    plait: Plait, url: str, era: str
) -> None:
    configure(plait, url, era, "add")
    command, *words = [*python(), "-m", "plait.cli", "serve", "--config"]
    entry = {"command": command, "args": [*words, str(plait.folder / "mcp.json")]}
    entry |= {"env": plait.environment}

    async def use() -> Sequence[str]:
        async with Toolbox({"plait": entry}) as box:
            results = [await box.call("plait", "desk__order", {"item": "tea"})]
            results.append(await box.call("plait", "desk__pay", {}))
            results.append(await box.call("plait", "desk__add", {"a": 1, "b": 2}))
            return [one.text for one in results]

    with viewer(plait) as person, ThreadPoolExecutor(1) as threads:
        used = threads.submit(asyncio.run, use())
        person.answer("How do you want your tea?", action="accept", **FORM)
        person.answer("Pay there.", action="decline")
        card = person.answer("desk/add", action="approve", arguments='{"a": 1, "b": 20}')
        texts = used.result()

    assert texts == [f"tea: {FILLED}", "decline", "21"]
    assert "plait serve" in card


def test_a_question_at_a_terminal_is_answered_there_or_in_the_viewer(
    plait: Plait, url: str
) -> None:
    calls = [{"calls": [{"name": "add", "arguments": {"a": a, "b": 2}}]} for a in (1, 2)]
    configure(plait, url, "auto", "add", script=[calls[0], calls[1], "Done."])
    with viewer(plait) as person:
        terminal = Terminal(plait, "run", "Add", "--model", "scripted:script.json")
        terminal.press("Call it?", "")
        person.answer("desk/add", action="approve", arguments='{"a": 10, "b": 2}')
        terminal.press("12\n", "")
        wait_until(lambda: person.cards != [])
        terminal.say("lways in this run: ", "y\n")
        wait_until(lambda: person.cards == [])
        code, stdout = terminal.end()

    assert (code, stdout) == (0, "Done.\n"), terminal.screen
