"""`plait chat` and `--continue`: what the model knows of earlier turns, and how a chat ends."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from plait.cli import main
from plait.testing import AnthropicServer, Call, Say
from plait.testing.llm.turns import Hang, Refuse
from plait.traces.file import read_traces

from .conftest import Plait
from .test_interrupt import wait_until
from .test_questions import Terminal
from .test_run import configure

ADD = Say(text="I add.", calls=(Call(name="add", arguments={"a": 1, "b": 2}),))
MODEL = ("--model", "claude-haiku-5-5")
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def api() -> Iterator[AnthropicServer]:
    """A stand-in for Anthropic's API, started once."""
    with AnthropicServer([], only_with_tools=False) as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path, api: AnthropicServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with the stand-in as the API."""
    for name in ("PLAIT_MODEL", "PLAIT_CONFIG", "XDG_STATE_HOME", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-canary-chat")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
    monkeypatch.setenv("PLAIT_TRUST", "1")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def plait_in(folder: Path, api: AnthropicServer) -> Command:
    """Run a command; `says` are the turns of the model, and `types` the lines of the user."""
    del folder

    def run(*arguments: str, says: Sequence[Any] = (), types: Sequence[str] = ()) -> Result:
        api.play(list(says))
        return CliRunner().invoke(main, arguments, input="".join(f"{line}\n" for line in types))

    return run


def texts_of(body: Mapping[str, Any]) -> list[str]:
    """Return the texts of the messages of a request."""
    found: list[str] = []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"text": content}] if isinstance(content, str) else content
        found.append("".join(block.get("text", f"<{block.get('type')}>") for block in blocks))
    return found


def test_a_conversation_keeps_history_and_servers_and_its_trace_refers_to_what_came_before(
    plait_in: Command, folder: Path, api: AnthropicServer, shop_url: str
) -> None:
    configure(folder, shop_url)

    done = plait_in(
        "chat",
        *MODEL,
        *("--trace", "t.jsonl"),
        says=[ADD, "It is 3.", "Twice is 6."],
        types=["How much is\\", "1 + 2?", "", "And twice?"],
    )

    assert (done.exit_code, done.stdout) == (0, "It is 3.\nTwice is 6.\n")
    assert texts_of(api.bodies[-1]) == [
        "How much is\n1 + 2?",
        "I add.<tool_use>",
        "<tool_result>",
        "It is 3.",
        "And twice?",
    ]
    first, second = read_traces("t.jsonl")
    assert second.started is not None
    assert second.started.continues == first.run
    assert [one.text for one in second.started.new_messages] == ["And twice?"]
    assert second.conversation[: len(first.conversation)] == first.conversation
    # The file has each message once.
    assert Path("t.jsonl").read_text().count("How much is") == 1
    assert done.stderr.count("tools: 6 tools of shop") == 1
    assert "conversation  2 messages" in done.stderr.splitlines()[-1]


def test_commands_show_what_the_agent_has_and_did(
    plait_in: Command, folder: Path, shop_url: str
) -> None:
    configure(folder, shop_url)

    types = ["/trace", "Hello", "/tools", "/servers", "/trace", "/help", "/nothing", "/exit", "No"]
    done = plait_in("chat", *MODEL, "--no-trace", says=["Hi."], types=types)

    assert (done.exit_code, done.stdout) == (0, "Hi.\n")
    for shown in (
        "note: there is no answer yet",
        "  add(a: integer, b: integer)",
        "✓  shop    http       ready",
        "ended: completed",
        "/image FILE  show an image",
        "there is no command /nothing",
    ):
        assert shown in done.stderr, shown
    assert not Path("home").exists()


def test_a_message_that_fails_is_not_part_of_the_conversation(
    plait_in: Command, api: AnthropicServer
) -> None:
    says = ["One.", Refuse(status=400, message="not so"), "Three."]
    done = plait_in("chat", *MODEL, "--no-trace", says=says, types=["a", "b", "c"])

    assert (done.exit_code, done.stdout) == (9, "One.\nThree.\n")
    assert "not so" in done.stderr
    assert texts_of(api.bodies[-1]) == ["a", "One.", "c"]


def test_the_newest_conversation_of_the_folder_is_continued_by_chat_and_run(
    plait_in: Command, folder: Path, api: AnthropicServer
) -> None:
    missing = plait_in("run", "b", "--continue", *MODEL)
    plait_in("chat", *MODEL, says=["One."], types=["a"])
    run = plait_in("run", *MODEL, "--continue", "b", says=["Two."])
    chat = plait_in("chat", *MODEL, "--continue", says=["Three."], types=["c"])

    assert (missing.exit_code, "no conversation" in missing.stderr) == (2, True)
    assert (run.stdout, chat.stdout) == ("Two.\n", "Three.\n")
    assert texts_of(api.bodies[-1]) == ["a", "One.", "b", "Two.", "c"]
    (file,) = (folder / "home").rglob("*.jsonl")
    assert file.stat().st_mode & 0o077 == 0
    shown = plait_in("trace", "show", str(file))
    assert "continues run" in shown.stdout
    assert "Three." in shown.stdout
    assert "One." not in shown.stdout

    other = folder / "other.jsonl"
    to_other = ("--continue", str(file), "--trace", str(other))
    moved = plait_in("run", "d", *MODEL, *to_other, says=["4"])
    assert moved.exit_code == 0
    assert [one.text for one in read_traces(other)[0].conversation][:2] == ["a", "One."]


def test_an_image_goes_with_the_next_message(plait_in: Command, api: AnthropicServer) -> None:
    Path("dot.png").write_bytes(PIXEL)

    plait_in(
        "chat",
        *MODEL,
        *("--no-trace", "--image", "dot.png"),
        says=["A dot.", "Another."],
        types=["What is it?", "/image dot.png", "/image none.gif", "And this?"],
    )

    kinds = [[block["type"] for block in body["messages"][-1]["content"]] for body in api.bodies]
    assert kinds == [["text", "image"], ["text", "image"]]


def test_settings_and_limits_hold_for_the_whole_conversation(
    plait_in: Command, api: AnthropicServer
) -> None:
    done = plait_in(
        "chat",
        *MODEL,
        *("--no-trace", "--json", "--max-tokens", "77", "--temperature", "0.5"),
        *("--max-total-tokens", "40"),
        says=[Say(text="One.", usage={"input_tokens": 20, "output_tokens": 30}), "Never."],
        types=["a", "b"],
    )

    assert (api.bodies[0]["max_tokens"], api.bodies[0]["temperature"]) == (77, 0.5)
    assert done.exit_code == 10
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["final_response"] for line in lines if line["event"] == "result"] == ["One."]
    assert "has used its 40 tokens" in done.stderr


@pytest.mark.timeout(120)
def test_ctrl_c_stops_an_answer_and_a_prompt_and_twice_ends_the_program(
    plait: Plait, api: AnthropicServer, shop_url: str
) -> None:
    config = {"mcpServers": {"shop": {"url": shop_url}}, "policy": {"default": "ask"}}
    (plait.folder / "mcp.json").write_text(json.dumps(config))
    api.play([ADD, Hang(), "Still here.", Hang()])
    key = {"ANTHROPIC_API_KEY": "sk-canary-chat", "ANTHROPIC_BASE_URL": api.url}

    terminal = Terminal(plait, "chat", *MODEL, **key)
    terminal.say("you> ", "Add\n")
    terminal.say("[a]lways in this run: ", "\x03")
    terminal.say("you> ", "Wait\n")
    wait_until(lambda: len(api.requests) == 2)
    terminal.press("Wait", "\x03")
    terminal.say("you> ", "Are you there?\n")
    terminal.press("completed  1 turn", "")
    terminal.say("you> ", "Wait again\n")
    wait_until(lambda: len(api.requests) == 4)
    terminal.press("Wait again", "\x03")
    terminal.say("you> ", "\x03")
    code, stdout = terminal.end()

    assert code == 130, terminal.screen
    assert stdout == "I add.\nStill here.\n"
    assert texts_of(api.bodies[-1]) == ["Add", "I add.", "Wait", "Are you there?", *_end()]
    assert terminal.screen.count("cancelled") == 3
    assert "Traceback" not in terminal.screen


def _end() -> list[str]:
    return ["Still here.", "Wait again"]


def test_a_script_goes_on_over_the_messages_of_a_conversation(
    plait_in: Command, folder: Path
) -> None:
    (folder / "script.json").write_text('["One.", "Two."]')

    done = plait_in("chat", "--model", "scripted:script.json", types=["a", "b", "c"])

    assert done.stdout == "One.\nTwo.\n"
    assert "the script has 2 turns, and turn 3 was requested" in done.stderr


def test_init_demo_is_enough_for_run_and_chat_without_npx_or_key(
    plait_in: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    model = ("--model", "scripted:demo-model.json")

    written = plait_in("init", "--demo")
    ran = plait_in("run", "Buy tea", *model)
    chatted = plait_in("chat", *model, types=["Buy tea", "Pay"])

    assert (written.exit_code, written.stderr) == (0, "")
    assert "plait chat --model scripted:demo-model.json" in written.stdout
    assert (ran.exit_code, ran.stdout.count("\n")) == (0, 1)
    assert chatted.stdout.startswith(ran.stdout)
    assert chatted.stdout.endswith("The tea is paid; the bank has the payment in its ledger.\n")
    assert (folder / "plait-demo" / "ledger.txt").read_text() == "paid 4\n"
    assert plait_in("init", "--demo", "--force", "--from", "cursor").exit_code == 2
    assert "demo-model.json exists" in plait_in("init", "--demo", "--path", "b.json").stderr
