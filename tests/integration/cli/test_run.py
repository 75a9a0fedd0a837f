"""`plait run` in this process: what is printed where, which model is taken, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from plait.cli import main
from plait.testing import OpenAIServer, free_port
from plait.traces.events import ApprovalDecided
from plait.traces.file import read_trace, read_traces

from .test_interrupt import wait_until

CANARY = "canary-4711-in-a-header"
ADD = {"text": "I add.", "calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}

Run = Callable[..., Result]


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and an environment that knows of no model."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("PLAIT_MODEL", "PLAIT_CONFIG", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PLAIT_NO_OLLAMA", "1")
    monkeypatch.setenv("PLAIT_TRUST", "1")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configure(folder: Path, url: str, **options: Any) -> None:
    servers = {"shop": {"url": url, "headers": {"X-Key": CANARY}}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers, **options}))


@pytest.fixture
def run(folder: Path) -> Run:
    """Run the command; `says` is what a scripted model says."""

    def run(
        *arguments: str, says: Sequence[object] = (), stdin: str | None = None, **environment: str
    ) -> Result:
        model: list[str] = []
        if says:
            (folder / "script.json").write_text(json.dumps(says))
            model = ["--model", "scripted:script.json"]
        runner = CliRunner(env=environment)
        return runner.invoke(main, ["run", *model, *arguments], input=stdin)

    return run


@pytest.fixture
def with_shop(folder: Path, shop_url: str) -> Path:
    """A folder with the shop server configured."""
    configure(folder, shop_url)
    return folder


@pytest.mark.usefixtures("with_shop")
def test_the_answer_goes_to_stdout_and_the_steps_to_stderr(run: Run) -> None:
    done = run("How much?", says=[ADD, "It is 3."])

    assert (done.exit_code, done.stdout) == (0, "It is 3.\n")
    lines = [" ".join(line.split()) for line in done.stderr.splitlines()]
    assert lines[0] == "model: scripted:script.json on langchain (requested)"
    assert lines[1] == "tools: 6 tools of shop"
    assert lines[3] == "I add."
    assert lines[4].endswith('s → shop/add {"a": 1, "b": 2}')
    assert lines[6] == '{ "total": 3 }'
    assert lines[-1].startswith("completed 2 turns · 1 tool call · ")
    assert not any("It is 3" in line for line in lines)
    assert "\x1b" not in done.stderr


@pytest.mark.usefixtures("with_shop")
def test_quiet_is_the_answer_alone(run: Run) -> None:
    done = run("How much?", "-q", says=[ADD, "It is 3."])

    assert (done.stdout, done.stderr) == ("It is 3.\n", "")


@pytest.mark.usefixtures("with_shop")
def test_json_is_one_object_with_everything(run: Run) -> None:
    done = run("How much?", "--json", "--trace", "runs.jsonl", says=[ADD, "It is 3."])

    told = json.loads(done.stdout.splitlines()[-1])
    trace = read_trace("runs.jsonl")
    assert (done.exit_code, done.stderr) == (0, "")
    assert (told["final_response"], told["status"], told["turns"]) == ("It is 3.", "completed", 2)
    assert (told["limit_reached"], told["timeout_reached"]) == (False, False)
    assert (told["interface"], told["model"]) == ("langchain", "script.json")
    assert told["usage"] == trace.usage.to_dict()
    assert (told["run"], told["trace"]) == (trace.run, "runs.jsonl")
    roles = [message["role"] for message in told["trace_messages"]]
    assert roles == ["assistant", "tool", "assistant"]


def test_a_task_may_come_from_stdin_and_without_a_configuration_there_are_no_tools(
    run: Run,
) -> None:
    done = run("-", "--trace", "t.jsonl", says=["Fine."], stdin="How are\nyou?\n")

    assert (done.exit_code, done.stdout) == (0, "Fine.\n")
    assert "note: no tools: there is no configuration" in done.stderr
    started = read_trace("t.jsonl").started
    assert started is not None
    assert started.messages[0].text == "How are\nyou?"


def test_nothing_to_do_is_a_wrong_command_line(run: Run) -> None:
    assert run("-", says=["x"], stdin=" \n").exit_code == 2
    assert run().exit_code == 2


def test_without_a_model_the_choices_are_explained(run: Run) -> None:
    done = run("Hello")

    assert (done.exit_code, done.stdout) == (4, "")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("error: no model is configured")
    assert len(lines) == 5
    local = "pip install 'plait[local]', plait model fetch NAME, then --model local:NAME"
    assert local in lines[2]
    told = json.loads(run("Hello", "--json").stdout.splitlines()[-1])
    assert (told["status"], told["error"]["error"]) == ("failed", "ConfigError")


def test_an_ollama_on_this_machine_is_found_and_said(run: Run) -> None:
    with OpenAIServer(["Hello from here."], models=["llama3.2"]) as server:
        environment = {"OLLAMA_HOST": server.url, "PLAIT_NO_OLLAMA": ""}
        done = run("Hello", **environment)
        without = run("Hello", "--no-ollama", **environment)

    assert done.stdout == "Hello from here.\n"
    said = done.stderr.splitlines()[0]
    assert said.startswith(f"model: llama3.2 at {server.url} on openai_endpoint (Ollama runs")
    assert without.exit_code == 4


def test_an_endpoint_is_asked_for_its_models_and_gets_its_own_key(run: Run) -> None:
    with OpenAIServer(["Hi."], models=["tiny"]) as server:
        keyed = run("Hello", OPENAI_BASE_URL=server.base_url, OPENAI_API_KEY="sk-canary-1")
        requests = list(server.requests)

    assert keyed.stdout == "Hi.\n"
    assert [one.path for one in requests] == ["/v1/models", "/v1/chat/completions"]
    assert {one.headers["authorization"] for one in requests} == {"Bearer sk-canary-1"}
    assert "canary" not in keyed.stderr


def test_the_model_of_the_environment_counts_less_than_the_option(run: Run) -> None:
    done = run("Hello", says=["Asked."], PLAIT_MODEL="nonsense")
    by_variable = run("Hello", PLAIT_MODEL="scripted:script.json")

    assert done.stdout == by_variable.stdout == "Asked.\n"
    assert "(PLAIT_MODEL is set)" in by_variable.stderr


def test_a_recorded_run_is_replayed(run: Run) -> None:
    run("Hello", "--trace", "runs.jsonl", says=["Recorded."])

    done = run("Hello", "--model", "manual:runs.jsonl")

    assert (done.exit_code, done.stdout) == (0, "Recorded.\n")
    assert run("Other", "--model", "manual:runs.jsonl").exit_code == 4


@pytest.mark.usefixtures("with_shop")
def test_a_run_out_of_turns_or_time_says_so_and_prints_what_was_said(run: Run) -> None:
    limited = run("How much?", "--max-turns", "1", says=[ADD, "It is 3."])
    slow = [{"text": "I wait.", **call("slow", seconds=600)}]
    late = run("Wait", "--timeout", "2", "--json", says=slow)

    assert (limited.exit_code, limited.stdout) == (10, "I add.\n")
    assert "limit  1 turn" in limited.stderr
    assert late.exit_code == 124
    assert json.loads(late.stdout.splitlines()[-1])["timeout_reached"] is True


def test_a_model_that_cannot_be_asked_ends_with_its_error(run: Run) -> None:
    model = f"http://127.0.0.1:{free_port()}/v1#x"

    done = run("Hello", "--model", model, "--trace", "t.jsonl")

    assert (done.exit_code, done.stdout) == (9, "")
    assert "error: openai_endpoint: x: http://127.0.0.1:" in done.stderr
    assert read_trace("t.jsonl").status == "failed"


def test_a_call_that_needs_approval_is_refused_where_nobody_is_and_made_with_yes(
    run: Run, folder: Path, shop_url: str
) -> None:
    configure(folder, shop_url, policy={"default": "ask"})
    (folder / "all.json").write_text('{"default": "allow"}')

    refused = run("Add", "--json", "--trace", "refused.jsonl", says=[ADD, "No."])
    approved = run("Add", "--json", "--yes", "--trace", "approved.jsonl", says=[ADD, "Yes."])
    allowed = run("Add", "--json", "--policy", "all.json", says=[ADD, "Yes."])

    results = [
        json.loads(done.stdout.splitlines()[-1])["trace_messages"][1]
        for done in (refused, approved, allowed)
    ]
    assert [one["tool_result"]["is_error"] for one in results] == [True, False, False]
    assert "there is no terminal to prompt on" in results[0]["content"]
    assert "the user" not in results[0]["content"]
    decided = [
        (one.decision, one.by)
        for name in ("refused", "approved")
        for one in read_trace(f"{name}.jsonl").events
        if isinstance(one, ApprovalDecided)
    ]
    assert decided == [("reject", "program"), ("approve", "program")]
    shown = CliRunner().invoke(main, ["trace", "show", "approved.jsonl"]).stdout
    assert "approved by the program: shop/add" in shown


def test_results_are_bounded_unless_that_is_turned_off(
    run: Run, folder: Path, shop_url: str
) -> None:
    configure(folder, shop_url)
    says = [call("search", query="x" * 200_000), "Done."]

    def length(done: Result) -> int:
        return len(json.loads(done.stdout.splitlines()[-1])["trace_messages"][1]["content"])

    assert 60_000 < length(run("Search", "--json", says=says)) < 81_000
    assert length(run("Search", "--json", "--result-budget", "300", says=says)) < 1_300
    assert length(run("Search", "--json", "--result-budget", "off", says=says)) > 200_000
    assert run("Search", "--result-budget", "10", says=says).exit_code == 2


@pytest.mark.usefixtures("with_shop")
def test_the_budgets_of_a_run_are_plain_data_in_its_trace(run: Run) -> None:
    run("Add", "--result-budget", "300", "--trace", "t.jsonl", says=[ADD, "Done."])

    started = read_trace("t.jsonl").started
    assert started is not None
    assert started.settings["result_budget"]["default"] == {"tokens": 300}


@pytest.mark.usefixtures("with_shop")
def test_a_secret_is_neither_on_the_screen_nor_in_the_trace(run: Run) -> None:
    says = [{"text": f"I use {CANARY}.", **call("search", query=CANARY)}, "Done."]

    done = run("Search", "--trace", "t.jsonl", says=says)

    assert done.exit_code == 0
    assert done.stderr.count("***") >= 3
    assert CANARY not in done.stderr
    assert CANARY not in Path("t.jsonl").read_text()


def test_some_servers_may_be_missing_but_not_all(run: Run, folder: Path, shop_url: str) -> None:
    dead = {"url": f"http://127.0.0.1:{free_port()}/mcp", "reconnect": {"max_attempts": 1}}
    servers = {"dead": dead, "shop": {"url": shop_url}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    some = run("How much?", says=[ADD, "It is 3."])
    none = run("How much?", "--server", "dead", says=[ADD, "It is 3."])
    unknown = run("How much?", "--server", "shp", says=["x"])

    assert (some.exit_code, some.stdout) == (0, "It is 3.\n")
    assert "warning: continuing without dead: " in some.stderr
    assert (none.exit_code, none.stdout) == (3, "")
    assert "is the server running at 127.0.0.1:" in none.stderr
    assert (unknown.exit_code, "did you mean 'shop'" in unknown.stderr) == (4, True)


@pytest.mark.usefixtures("with_shop")
def test_progress_of_a_tool_is_told_and_several_runs_share_a_file(run: Run) -> None:
    says = [call("slow", seconds=0), "Done."]

    done = run("Wait", "--trace", "t.jsonl", says=says)
    run("Wait", "--trace", "t.jsonl", says=says)

    assert "progress: shop/slow 1 of 3 one of three\n" in done.stderr
    assert [trace.status for trace in read_traces("t.jsonl")] == ["completed"] * 2


@pytest.mark.usefixtures("with_shop")
def test_a_run_that_is_terminated_ends_in_order(run: Run) -> None:
    trace = Path("t.jsonl")

    def terminate() -> None:
        wait_until(lambda: trace.exists() and b'"tool_call"' in trace.read_bytes())
        os.kill(os.getpid(), signal.SIGTERM)

    stopper = threading.Thread(target=terminate)
    before = signal.getsignal(signal.SIGTERM)
    stopper.start()
    try:
        says = [{"text": "I wait.", **call("slow", seconds=600)}]
        done = run("Wait", "--trace", str(trace), says=says)
    finally:
        stopper.join()
        signal.signal(signal.SIGTERM, before)

    assert (done.exit_code, done.stdout) == (143, "I wait.\n")
    assert done.stderr.splitlines()[-1].startswith("cancelled  1 turn · 1 tool call · ")
    assert read_trace(trace).status == "cancelled"
