"""`plait run` as a program: on a terminal, stopped with Ctrl-C, and killed."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest

from plait.traces.file import read_trace

from .conftest import Plait
from .test_interrupt import wait_until
from .test_questions import Terminal

pytestmark = pytest.mark.timeout(120)

FAULTS = {"command": sys.executable, "args": ["-m", "plait.testing.faults", "--transport=stdio"]}
POLICY = {"rules": [{"tool": "echo", "do": "ask"}], "default": "allow"}


def script(plait: Plait, *says: object) -> tuple[str, ...]:
    """Write what the model says, and return the arguments of a run."""
    (plait.folder / "script.json").write_text(json.dumps(says))
    return ("run", "Go", "--model", "scripted:script.json", "--trace", "t.jsonl")


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"text": f"I call {name}.", "calls": [{"name": name, "arguments": arguments}]}


def test_policy_and_servers_ask_on_the_terminal_and_ctrl_c_ends_the_run(plait: Plait) -> None:
    text = {"mcpServers": {"desk": FAULTS}, "policy": POLICY}
    (plait.folder / "mcp.json").write_text(json.dumps(text))
    says = (call("echo", text="tea"), call("ask", question="Your name?"), call("hang"))

    terminal = Terminal(plait, *script(plait, *says), TERM="xterm")
    terminal.say("Call it? [y]es, [N]o, [a]lways in this run: ", "y\n")
    terminal.say("\ntext: ", "Ada\n")
    terminal.say("send this to desk? [Y/n] ", "\n")
    terminal.press("calling desk/hang", "\x03")
    code, stdout = terminal.end()

    shown = terminal.screen
    assert (code, stdout) == (130, "I call hang.\n"), shown
    assert "connecting to desk" in shown
    assert "policy: desk/echo needs your approval" in shown
    assert "question: desk asks\n  | Your name?\n" in shown
    assert "elicitation of desk" in shown
    assert "Traceback" not in shown
    # The wheel is erased before a question is put, and does not turn during it.
    asked = shown.index("Call it?")
    assert "calling" not in shown[asked : shown.index("y\n", asked)]
    assert "cancelled  3 turns · 3 tool calls · " in shown.splitlines()[-1]
    trace = read_trace(plait.folder / "t.jsonl")
    assert trace.status == "cancelled"
    answers = [answer and (answer.content, answer.is_error) for _, answer in trace.calls]
    assert answers == [("tea", False), ("Your name? Ada", False), None]


def test_a_run_that_is_killed_leaves_what_had_happened(with_shop: Plait) -> None:
    trace = with_shop.folder / "t.jsonl"
    process = with_shop.start(*script(with_shop, call("slow", seconds=600), "Never."))
    wait_until(lambda: trace.exists() and b'"tool_call"' in trace.read_bytes(), 60)

    process.kill()
    process.communicate(timeout=30)

    read = read_trace(trace)
    assert (read.status, read.turns, read.final_response) == ("unfinished", 1, "I call slow.")
    assert [(called.tool, answer) for called, answer in read.calls] == [("slow", None)]


def test_no_spinner_is_left_in_front_of_what_a_run_prints(with_shop: Plait) -> None:
    call = {"name": "search", "arguments": {"query": "tea"}}
    script = [{"delay": 0.7, "calls": [call]}, {"text": "Done.", "delay": 0.7}]
    (with_shop.folder / "script.json").write_text(json.dumps(script))
    terminal = Terminal(
        with_shop, "run", "Go", "--model", "scripted:script.json", TERM="xterm-256color"
    )

    assert terminal.end() == (0, "Done.\n")
    assert re.search(r"waiting for the model … \d s\n", terminal.screen)
    assert re.search(r"waiting for the model … \d s[^\r\n]", terminal.screen) is None
