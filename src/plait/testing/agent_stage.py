"""What the test suite for engines needs: a stage with a scripted model, servers, and outlines."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, Unpack

from plait.agents.config import AgentConfig
from plait.agents.port import AgentResult
from plait.agents.program_tools import ToolLike
from plait.models.scripts import Call, Say
from plait.testing.faults.options import parse
from plait.testing.faults.run import Run
from plait.testing.faults.serve import build_server
from plait.testing.llm.turns import Cut, Hang, Refuse
from plait.testing.processes import ServerProcess, fault_server, stdio_config
from plait.traces.messages.message import Message, Role, UsageMetadata

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
    streaming: Sequence[bool]
    """Whether the engine can get answers of the model whole, as streams, or both."""

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
def served(
    reach: Reach,
    state: Path,
    *,
    stdio: Callable[..., dict[str, object]] = stdio_config,
    http: Callable[..., ServerProcess] = fault_server,
) -> Generator[tuple[dict[str, Any], ServerProcess | None]]:
    """Run a fault server with sessions; yields the servers of a run, and the process."""
    match reach:
        case "in-process":
            run = Run(parse([f"--state-dir={state}"]))
            yield {"faults": {"type": "sdk", "instance": build_server(run)}}, None
        case "stdio":
            yield {"faults": stdio(state_dir=state)}, None
        case "http":
            with http(state_dir=state, legacy_only=True) as server:
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


DENIED = (
    "pay ! faults/pay: this call is denied by rule 2 of the policy "
    "(tool pay, amount is 2): too much. It was not sent. Do without it."
)

KEY = "sk-canary-0123456789abcdef"
"""The key that stages send to their APIs."""

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
