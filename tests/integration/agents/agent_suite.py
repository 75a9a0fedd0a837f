"""What each engine must do: the tests that `test_conformance.py` runs for all of them."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from traceback import format_exception
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, Unpack

import pytest
from pydantic import BaseModel, StrictInt

from plait import AgentConfig, AgentResult, Message
from plait.agents import StaticTool, ToolLike
from plait.errors import AgentExecutionError, ParseError
from plait.testing import Call, Say, ServerProcess
from plait.testing.faults.fault_options import Run, parse
from plait.testing.faults.fault_server import build_server
from plait.testing.llm.turns import Cut, Hang, Refuse
from plait.traces.events import (
    ApprovalDecided,
    Healed,
    ToolCalled,
    ToolReturned,
    TraceEvent,
)
from plait.traces.file import read_trace
from plait.traces.messages.message import Role, UsageMetadata
from tests import nursery
from tests.servers import KEY

Play: TypeAlias = "Sequence[Say | Refuse | Hang | Cut]"
"""The turns of the model."""

Reach: TypeAlias = Literal["in-process", "stdio", "http"]
"""The transport to the server."""

PROCESSES: tuple[Reach, ...] = ("stdio", "http")


class StageOptions(TypedDict, total=False):
    """What a run on a stage has besides its messages and its settings."""

    tools: Sequence[ToolLike] | None
    servers: Mapping[str, Any] | None
    streaming: bool | None
    """How the engine gets answers; `None` is its own choice."""
    retries: int
    """How often a request to the model is repeated; by default never."""


class AgentStage(Protocol):
    """Sets up an engine with a scripted model."""

    slowness_seconds: float
    """How long a run of a few turns may take until its last call, on a busy machine."""

    @property
    def spent(self) -> UsageMetadata:
        """The total usage that the model's API reported for the last run."""
        ...

    async def run(
        self,
        play: Play,
        messages: Sequence[Message],
        config: AgentConfig | None = None,
        **options: Unpack[StageOptions],
    ) -> AgentResult:
        """Run an agent whose model plays these turns."""
        ...


ASK = [Message.system("Use the tools."), Message.user("What is “42” — 四十二?")]

LOOK = Say(
    "I look.",
    calls=(
        Call("echo", {"text": "héllo 🧵 四十二"}),
        Call("fail", {"text": "no such thing"}),
        Call("echo", {"text": "again"}),
        Call("image"),
    ),
    usage={"input_tokens": 100, "output_tokens": 20},
)

CALLS = (
    "echo({'text': 'héllo 🧵 四十二'}), fail({'text': 'no such thing'}), "
    "echo({'text': 'again'}), image({})"
)

ANSWER = Say(
    "It is 四十二 🎉.\n\nSure.",
    usage={"input_tokens": 300, "output_tokens": 7, "cache_read_tokens": 200},
)


@contextmanager
def served(reach: Reach, state: Path) -> Generator[tuple[dict[str, Any], ServerProcess | None]]:
    """Run a fault server with sessions; yields the servers of a run, and the process."""
    match reach:
        case "in-process":
            run = Run(parse([f"--state-dir={state}"]))
            yield {"faults": {"type": "sdk", "instance": build_server(run)}}, None
        case "stdio":
            yield {"faults": nursery.stdio_config(state_dir=str(state))}, None
        case "http":
            with nursery.fault_server(state_dir=state, legacy_only=True) as server:
                yield {"faults": {"url": server.url}}, server


_CALL_ID = re.compile(r"\(call_id: (?P<result>[^)]*)\) ---|   Call ID: (?P<call>.*)")


def outline(messages: Iterable[Message]) -> list[str]:
    """Format messages as lines that are the same in every engine.

    `AI: text -> tool({...})` is a model turn with its calls, `tool = text` a result, and
    `tool ! text` an error; the tool is found by the id of its call.
    """
    names: dict[str, str] = {}
    lines: list[str] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            names.update((call.id, call.name) for call in message.tool_calls)
            wishes = ", ".join(f"{call.name}({call.input})" for call in message.tool_calls)
            thought = f"({message.thinking}) " if message.thinking else ""
            lines.append(f"AI: {thought}{message.text}" + (f" -> {wishes}" if wishes else ""))
        elif message.tool_results:
            for result in message.tool_results:
                mark = "!" if result.is_error else "="
                lines.append(f"{names.get(result.tool_use_id, '?')} {mark} {result.content}")
        else:
            lines.append(f"{message.role}: {message.text}")
    return lines


def without_ids(result: AgentResult) -> str:
    """Return the raw trace with the call ids numbered in order."""
    text = result.raw_trace
    ids = [match["result"] or match["call"] for match in _CALL_ID.finditer(text)]
    for number, call_id in enumerate(dict.fromkeys(ids), 1):
        text = text.replace(call_id, f"c{number}")
    return text


class Number(BaseModel):
    """The answer of a run with an output type."""

    answer: StrictInt


FORM = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}


DENIED = (
    "pay ! faults/pay: this call is denied by rule 2 of the policy "
    "(tool pay, amount is 2): too much. It was not sent. Do without it."
)


RAW_TRACE = """\
--- AI Message ---
I look.

Tool Calls:
  echo (call_c1)
   Call ID: c1
   Args: {'text': 'héllo 🧵 四十二'}
  fail (call_c2)
   Call ID: c2
   Args: {'text': 'no such thing'}
  echo (call_c3)
   Call ID: c3
   Args: {'text': 'again'}
  image (call_c4)
   Call ID: c4

--- Tool Message (call_id: c1) ---
héllo 🧵 四十二

--- Tool Message (call_id: c2) ---
[ERROR] Error executing tool fail: no such thing

--- Tool Message (call_id: c3) ---
again

--- Tool Message (call_id: c4) ---
one pixel
[image: image/png, 70 B]

--- AI Message ---

Tool Calls:
  add (call_c5)
   Call ID: c5
   Args: {'a': 20, 'b': 22}

--- Tool Message (call_id: c5) ---
42

--- AI Message ---
It is 四十二 🎉.

Sure."""


def counts_of(usage: UsageMetadata) -> tuple[int, int, int, int]:
    """Return the counts of a usage: input, output, total and cached tokens."""
    cached = usage.cache_read_tokens or 0
    return usage.input_tokens, usage.output_tokens, usage.total_tokens, cached


@pytest.mark.anyio
class AgentSuite:
    """For every engine; a subclass has a fixture `stage`."""

    @pytest.mark.parametrize("reach", PROCESSES)
    async def test_the_same_script_gives_the_same_messages(
        self, stage: AgentStage, reach: Reach, tmp_path: Path
    ) -> None:
        """Parallel calls, a tool's error, a picture and other scripts, over stdio and over HTTP."""
        more = Say("", calls=(Call("add", {"a": 20, "b": 22}),))

        events: list[TraceEvent] = []

        with served(reach, tmp_path) as (servers, _):
            config = AgentConfig(on_event=events.append)
            result = await stage.run([LOOK, more, ANSWER], ASK, servers=servers, config=config)

        assert outline(result.trace_messages) == [
            f"AI: I look. -> {CALLS}",
            "echo = héllo 🧵 四十二",
            "fail ! Error executing tool fail: no such thing",
            "echo = again",
            "image = one pixel\n[image: image/png, 70 B]",
            "AI:  -> add({'a': 20, 'b': 22})",
            "add = 42",
            "AI: It is 四十二 🎉.\n\nSure.",
        ]
        assert result.final_response == "It is 四十二 🎉.\n\nSure."
        assert (result.turns, result.limit_reached, result.timeout_reached) == (3, False, False)
        assert counts_of(result.usage) == counts_of(stage.spent)
        assert without_ids(result) == RAW_TRACE
        results = [one for one in events if isinstance(one, ToolReturned)]
        images = [image for one in results for image in one.images]
        assert [(image.mime_type, image.size_bytes) for image in images] == [("image/png", 70)]

    async def test_the_turn_limit_is_exact(self, stage: AgentStage, tmp_path: Path) -> None:
        """The calls of the last turn are made, and no text is added."""
        again = Say("Once more.", calls=(Call("echo", {"text": "two"}),))
        config = AgentConfig(max_turns=2)

        with served("in-process", tmp_path) as (servers, _):
            result = await stage.run([LOOK, again, ANSWER], ASK, servers=servers, config=config)

        assert outline(result.trace_messages)[-2:] == [
            "AI: Once more. -> echo({'text': 'two'})",
            "echo = two",
        ]
        assert (result.turns, result.limit_reached, result.timeout_reached) == (2, True, False)
        assert result.final_response == "Once more."
        assert result.raw_trace.endswith(
            "\ntwo\n\n[Note: Recursion limit reached - partial response shown]"
        )
        assert counts_of(result.usage) == counts_of(stage.spent)

    async def test_an_answer_in_the_last_turn_is_no_limit(self, stage: AgentStage) -> None:
        """No servers and no tools is a plain answer."""
        result = await stage.run([ANSWER], ASK, config=AgentConfig(max_turns=1))

        assert outline(result.trace_messages) == ["AI: It is 四十二 🎉.\n\nSure."]
        assert (result.turns, result.limit_reached) == (1, False)
        assert counts_of(result.usage) == counts_of(stage.spent)

    async def test_a_timeout_keeps_what_had_happened(
        self, stage: AgentStage, tmp_path: Path
    ) -> None:
        """Text, finished calls and usage are there; the call that hangs has no result."""
        wait = Say("I wait.", calls=(Call("hang"),))
        trace = tmp_path / "trace.jsonl"
        config = AgentConfig(timeout=stage.slowness_seconds, trace=trace)

        with served("in-process", tmp_path) as (servers, _):
            result = await stage.run([LOOK, wait, ANSWER], ASK, servers=servers, config=config)

        assert outline(result.trace_messages)[-2:] == [
            "image = one pixel\n[image: image/png, 70 B]",
            "AI: I wait. -> hang({})",
        ]
        assert (result.turns, result.limit_reached, result.timeout_reached) == (2, False, True)
        assert result.final_response == "I wait."
        assert result.raw_trace.endswith("[Note: Agent timed out - partial response shown]")
        assert counts_of(result.usage) == counts_of(stage.spent)
        assert read_trace(trace).status == "timeout"

    @pytest.mark.parametrize("reach", PROCESSES)
    async def test_a_server_that_is_killed_comes_back(
        self, stage: AgentStage, reach: Reach, tmp_path: Path
    ) -> None:
        """The model sees no error, and the trace records it."""
        ask = Say("Who are you?", calls=(Call("pid"),))
        events: list[TraceEvent] = []

        with served(reach, tmp_path) as (servers, process):

            def listen(event: TraceEvent) -> None:
                events.append(event)
                results = [each for each in events if isinstance(each, ToolReturned)]
                if results == [event]:
                    os.kill(int(results[0].content), signal.SIGKILL)
                    if process is not None:
                        process.restart()

            config = AgentConfig(on_event=listen)
            result = await stage.run([ask, ask, ANSWER], ASK, servers=servers, config=config)

        first, second = (line for line in outline(result.trace_messages) if line.startswith("pid"))
        assert first != second
        assert "!" not in second
        assert result.final_response == ANSWER.text
        assert [event.server for event in events if isinstance(event, Healed)] == ["faults"]

    async def test_a_denied_call_is_refused_with_the_same_words(
        self, stage: AgentStage, tmp_path: Path
    ) -> None:
        """By rule, and by a person; what is allowed is called."""
        rules = [
            {"tool": "pay", "when": {"amount": "1"}, "do": "allow"},
            {"tool": "pay", "when": {"amount": "2"}, "do": "deny", "reason": "too much"},
            {"tool": "pay", "do": "ask", "reason": "it is a lot"},
        ]
        approved: list[Mapping[str, Any]] = []

        def approve(request: Any) -> bool:
            approved.append(request.arguments)
            return request.arguments["amount"] == 3

        options = {"policy": {"default": "allow", "rules": rules}, "on_approval": approve}
        pays = tuple(Call("pay", {"amount": amount}) for amount in (1, 2, 3, 4))
        events: list[TraceEvent] = []
        config = AgentConfig(tool_options=options, on_event=events.append)

        with served("in-process", tmp_path) as (servers, _):
            result = await stage.run(
                [Say("I pay.", calls=pays), ANSWER], ASK, servers=servers, config=config
            )

        assert outline(result.trace_messages)[1:5] == [
            "pay = paid 1",
            DENIED,
            "pay = paid 3",
            "pay ! faults/pay: this call was not approved. It was not sent.",
        ]
        assert sorted((tmp_path / "ledger").read_text().split()) == ["1", "3"]
        assert sorted(approved, key=lambda call: call["amount"]) == [{"amount": 3}, {"amount": 4}]
        amounts = {one.id: one.arguments["amount"] for one in events if isinstance(one, ToolCalled)}
        decided = [one for one in events if isinstance(one, ApprovalDecided)]
        assert sorted((amounts[one.parent or 0], one.decision, one.by) for one in decided) == [
            (2, "deny", "policy"),
            (3, "approve", "program"),
            (4, "reject", "program"),
        ]

    async def test_an_empty_answer_is_an_answer(self, stage: AgentStage) -> None:
        """It is not treated as a failure, and not replaced."""
        result = await stage.run([Say("")], ASK)

        assert outline(result.trace_messages) == ["AI: "]
        assert result.final_response == "[No final response extracted]"
        assert (result.turns, result.limit_reached, result.timeout_reached) == (1, False, False)

    async def test_tools_of_the_program_are_called_too(self, stage: AgentStage) -> None:
        """With and without a function, and among tools of servers."""

        async def twice(n: int) -> str:
            return json.dumps({"twice": 2 * n})

        schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        tools = [StaticTool("twice", "Doubles.", schema, twice), StaticTool("empty")]
        calls = (Call("twice", {"n": 21}), Call("empty"))

        result = await stage.run([Say("", calls=calls), ANSWER], ASK, tools=tools)

        assert outline(result.trace_messages)[1:3] == [
            'twice = {"twice": 42}',
            "empty ! empty cannot be called: it has no function",
        ]


@pytest.mark.anyio
class LiveAgentSuite(AgentSuite):
    """For engines that use a model."""

    async def test_secrets_that_a_tool_gives_away_are_not_in_the_trace(
        self, stage: AgentStage, tmp_path: Path
    ) -> None:
        """Secrets of the server are redacted, also in arguments and answers."""
        trace = tmp_path / "trace.jsonl"
        secrets = ("canary-of-a-header", "canary-of-a-variable")
        asks = (Call("headers"), Call("env", {"name": "VAULT"}), Call("echo", {"text": secrets[1]}))
        play = [Say(f"I tell {secrets[0]}.", calls=asks), ANSWER]

        with (
            served("stdio", tmp_path) as (stdio, _),
            served("http", tmp_path) as (http, _),
        ):
            servers = {
                "inside": {**stdio["faults"], "env": {"VAULT": secrets[1]}, "include": ["env"]},
                "outside": {
                    **http["faults"],
                    "headers": {"X-Vault-Key": secrets[0]},
                    "include": ["headers", "echo"],
                },
            }
            config = AgentConfig(trace=trace)
            result = await stage.run(play, ASK, servers=servers, config=config)

        assert all(secret in result.raw_trace for secret in secrets)
        assert not any(secret.encode() in trace.read_bytes() for secret in (*secrets, KEY))
        assert len(read_trace(trace).calls) == len(asks)

    @pytest.mark.parametrize("reach", PROCESSES)
    async def test_arguments_are_repaired_or_are_the_models_to_mend(
        self, stage: AgentStage, reach: Reach, tmp_path: Path
    ) -> None:
        """JSON in JSON, nothing, no object, and half a character: none of it ends the run."""
        calls = (
            Call("echo", encoded='"{\\"text\\": \\"twice\\"}"'),
            Call("headers", encoded="null"),
            Call("echo", encoded="[1]"),
            Call("echo", {"text": "half \ud83d"}),
            Call("fail", {"text": "half \ud83d"}),
        )
        ask = [Message.user("What is \ud83d?")]

        with served(reach, tmp_path) as (servers, _):
            result = await stage.run([Say("\ud83d!", calls=calls), ANSWER], ask, servers=servers)

        assert result.status == "completed"
        twice, headers, listed, half, failed = (
            each for message in result.trace_messages for each in message.tool_results
        )
        assert (twice.content, twice.is_error) == ("twice", False)
        assert not headers.is_error
        assert (listed.content, listed.is_error) == (
            "the call was not made: its arguments are not one complete JSON object: [1]",
            True,
        )
        assert (half.content, half.is_error) == ("half \ufffd", False)
        assert failed.is_error
        json.dumps(outline(result.trace_messages), ensure_ascii=False).encode()

    async def test_the_rules_of_a_run_hold_for_tools_of_the_program(
        self, stage: AgentStage
    ) -> None:
        """Policy, budgets, timeouts and sanitizing; names are legal, and data becomes JSON."""
        paid: list[int] = []
        released = threading.Event()

        def pay(amount: int) -> str:
            """Pay an amount."""
            paid.append(amount)
            return f"paid {amount}"

        def block() -> None:
            released.wait(30)

        def table() -> dict[str, Any]:
            return {"rows": ["é" * 10] * 200}

        tools: list[ToolLike] = [
            pay,
            block,
            table,
            StaticTool("my tool!", function=lambda: "a\u200bb\x1b[31m"),
        ]
        calls = (
            Call("pay", {"amount": 1}),
            Call("pay", {"amount": 2}),
            Call("pay", {"amount": "many"}),
            Call("block"),
            Call("table"),
            Call("my_tool_"),
        )
        rule = {"tool": "pay", "when": {"amount": 2}, "do": "deny", "reason": "too much"}
        options = {
            "policy": {"default": "allow", "rules": [rule]},
            "call_budget": {"calls": 4},
            "tool_timeouts": {"block": 0.3},
            "result_budget": 250,
        }
        play = [Say("", calls=calls), Say("", calls=calls[:1]), ANSWER]

        try:
            result = await stage.run(
                play, ASK, tools=tools, config=AgentConfig(tool_options=options)
            )
        finally:
            released.set()

        lines = outline(result.trace_messages)[1:]
        assert lines[0] == "pay = paid 1"
        assert "denied by rule 1" in lines[1]
        assert lines[2].startswith("pay ! ")
        assert lines[3].startswith("block ! ")
        assert "within 0.3 s" in lines[3]
        assert lines[4].startswith('table = {"rows":')
        assert len(lines[4]) < 1500
        assert lines[5] == "my_tool_ = ab"
        assert "budget of this run is used up" in lines[7]
        assert paid == [1]

    async def test_an_answer_that_does_not_fit_its_type_is_asked_for_again(
        self, stage: AgentStage
    ) -> None:
        """The model reads what is wrong, and the calls before are made once."""
        made: list[int] = []
        tools = [StaticTool("look", function=lambda: made.append(1) or "42")]
        look = Say("I look.", calls=(Call("look"),))
        play = [look, Say("It is 42."), Say('{"answer": "lots"}'), Say('So: {"answer": 42}')]

        config = AgentConfig(output_type=Number)
        result = await stage.run(play, ASK, tools=tools, config=config)

        assert (result.output, result.turns, made) == (Number(answer=42), 4, [1])
        assert counts_of(result.usage) == counts_of(stage.spent)

        with pytest.raises(ParseError) as failed:
            await stage.run(play[1:], ASK, config=AgentConfig(output_type=FORM, output_retries=1))
        assert failed.value.raw_response == '{"answer": "lots"}'
        assert failed.value.trace.turns == 2

    async def test_a_failure_in_passing_is_tried_again(
        self, stage: AgentStage, tmp_path: Path
    ) -> None:
        """An overload in the middle of a stream too; the calls before it are made once."""
        pay = Say("I pay.", calls=(Call("pay", {"amount": 1}),))
        overloaded = Cut(5, error="overloaded_error")

        with served("stdio", tmp_path) as (servers, _):
            result = await stage.run(
                [pay, overloaded, ANSWER], ASK, servers=servers, streaming=True, retries=1
            )

        assert outline(result.trace_messages) == [
            "AI: I pay. -> pay({'amount': 1})",
            "pay = paid 1",
            "AI: It is 四十二 🎉.\n\nSure.",
        ]
        assert result.status == "completed"
        assert (tmp_path / "ledger").read_text().split() == ["1"]

    async def test_a_failure_carries_the_run_so_far(
        self, stage: AgentStage, tmp_path: Path
    ) -> None:
        """Messages, usage and trace, and whether it may be tried again."""
        play = [LOOK, Refuse(status=529, message="overloaded")]

        with (
            served("http", tmp_path) as (servers, _),
            pytest.raises(AgentExecutionError) as failed,
        ):
            await stage.run(play, ASK, servers=servers)

        error = failed.value
        assert (error.retryable, error.status) == (True, 529)
        assert outline(error.messages)[0] == f"AI: I look. -> {CALLS}"
        assert error.usage.total_tokens == 120
        assert (error.trace.turns, len(error.trace.calls)) == (1, 4)

    async def test_a_refusal_of_the_provider_ends_the_run_and_keeps_the_trace(
        self, stage: AgentStage, tmp_path: Path
    ) -> None:
        """The trace has the earlier messages; the key is nowhere."""
        trace = tmp_path / "trace.jsonl"
        play = [LOOK, Refuse(status=401, message="no")]

        with (
            served("in-process", tmp_path) as (servers, _),
            pytest.raises(AgentExecutionError) as failed,
        ):
            await stage.run(play, ASK, servers=servers, config=AgentConfig(trace=trace))

        recorded = read_trace(trace)
        assert recorded.status == "failed"
        assert outline(recorded.messages)[0] == f"AI: I look. -> {CALLS}"
        assert "401" in str(failed.value)
        assert KEY not in "".join(format_exception(failed.value))
        assert KEY.encode() not in trace.read_bytes()
