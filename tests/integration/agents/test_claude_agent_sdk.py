"""The engine on the Claude Agent SDK: its real command line against a stand-in of the API.

Each run starts a program of 370 MB, so a run shows several things.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.server import MCPServer

from plait import (
    AgentConfig,
    AgentResult,
    ConfigError,
    Message,
    ModelConfig,
    StaticTool,
    get_agent,
)
from plait.client import Approval, ApprovalRequest
from plait.client.catalog.lock import Lockfile, write_lockfile
from plait.errors import AgentExecutionError
from plait.testing import AnthropicServer, Call, Say, server_stdio_config
from plait.traces import ThinkingContent
from plait.traces.events import ToolCalled, TraceEvent, Turn
from tests.servers import KEY

pytestmark = pytest.mark.anyio

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
ASK = [Message.user("Do it.")]
CANARY = "CANARY_OF_THE_PERSON"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the person settings of their own, none of which may have an effect."""
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "CLAUDE")):
            monkeypatch.delenv(name)
    path = tmp_path / "home"
    settings = path / ".claude"
    leaks = {"mcpServers": {"leak": {"command": "touch", "args": [str(path / "MCP_RAN")]}}}
    hook = [{"hooks": [{"type": "command", "command": f"touch {path}/HOOK_RAN"}]}]
    events = ("SessionStart", "UserPromptSubmit", "PreToolUse", "Stop")
    personal = {
        "hooks": dict.fromkeys(events, hook),
        "env": {"ANTHROPIC_CUSTOM_HEADERS": f"x-leak: {CANARY}"},
        "permissions": {"allow": ["mcp__calc__add"]},
        **leaks,
    }
    skill = f"---\nname: leak\ndescription: {CANARY}\n---\n{CANARY}"
    for folder in (settings, path / "work" / ".claude"):
        write(folder / "settings.json", json.dumps(personal))
        write(folder / "CLAUDE.md", CANARY)
        write(folder / "skills" / "leak" / "SKILL.md", skill)
        write(folder / "agents" / "leak.md", skill)
        write(folder / "rules" / "leak.md", CANARY)
    write(path / "work" / "CLAUDE.md", CANARY)
    write(path / "work" / ".mcp.json", json.dumps(leaks))
    write(path / ".claude.json", json.dumps(leaks))
    monkeypatch.setenv("HOME", str(path))
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    yield path
    # A run leaves no program and no file behind.
    assert [*processes(), *(tmp_path / "tmp").iterdir()] == []


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def model(api: AnthropicServer, **more: Any) -> ModelConfig:
    facts: dict[str, Any] = {"anthropic_base_url": api.url, "anthropic_api_key": KEY, **more}
    return ModelConfig(
        id="t", model_name="claude-test", interface="claude_agent_sdk", max_retries=0, **facts
    )


def calc() -> Any:
    server = MCPServer("calc", instructions="INSTRUCTIONS_OF_THE_SERVER", log_level="CRITICAL")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def fail() -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(text="no luck")], is_error=True)

    @server.tool()
    def draw() -> types.CallToolResult:
        return types.CallToolResult(
            content=[
                types.TextContent(text="a dot"),
                types.ImageContent(data=PIXEL, mime_type="image/png"),
                types.AudioContent(data="AAAA", mime_type="audio/wav"),
            ]
        )

    @server.tool(name="odd.näme")
    async def hang() -> str:
        await asyncio.Event().wait()
        return "late"

    return {"type": "sdk", "instance": server}


def wish(name: str, /, **arguments: Any) -> Call:
    return Call(f"mcp__{name}", arguments)


def answers(result: AgentResult) -> list[str]:
    found = [answer for message in result.trace_messages for answer in message.tool_results]
    return [("! " if one.is_error else "") + one.content for one in found]


def wire_results(api: AnthropicServer) -> list[Mapping[str, Any]]:
    """Return the results of tools that the model read with the last request."""
    return [
        block
        for message in api.bodies[-1]["messages"]
        if message["role"] == "user" and isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]


def processes() -> Iterator[list[str]]:
    """Find the command lines that run on behalf of this process."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            except OSError:
                continue
            if parent == str(os.getpid()) and words[0].endswith("claude"):
                yield words


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


async def test_what_tools_answer_reaches_the_model_and_the_trace(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parallel calls, errors, images, thoughts, tools of the program; and nobody's settings."""
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", CANARY)
    script = [
        Say(
            "Ich rechne … 日本",
            calls=(
                wish("calc__add", a=1, b=2),
                wish("calc__add", a=1, b=2),
                wish("calc__draw"),
                wish("calc__fail"),
                wish("plait__twice", n="ü"),
                wish("time__get_timestamp"),
                wish("calc__gone"),
            ),
            thinking="Hm.",
            usage={"input_tokens": 11, "output_tokens": 7, "cache_read_tokens": 5},
        ),
        Say("Fertig ✓"),
    ]
    twice = StaticTool("twice", "Say it twice.", function=lambda n: n * 2)
    config = AgentConfig(workspace_path=home / "work")
    with AnthropicServer(script, key=KEY) as api:
        settings = model(
            api, system_prompt="Be kind.", max_tokens=777, mcp_tool_filter=["calc/*", "get_t*"]
        )
        result = await get_agent(settings).arun(
            [Message.user("/leak @CLAUDE.md")],
            [twice],
            {"calc": calc(), "time": server_stdio_config()},
            config,
        )

    said, *rest = result.trace_messages
    assert isinstance(said.content[0], ThinkingContent)
    assert said.thinking == "Hm."
    assert said.content[0].signature
    assert said.text == "Ich rechne … 日本"
    assert [call.name for call in said.tool_calls[:5]] == ["add", "add", "draw", "fail", "twice"]
    assert [answer.tool_use_id for one in rest for answer in one.tool_results] == [
        call.id for call in said.tool_calls
    ]
    *known, stamp, unknown = answers(result)
    line = "a dot\n[image: image/png, 70 B]\n[audio: audio/wav, 3 B]"
    assert known == ["3", "3", line, "! no luck", "üü"]
    assert stamp.isdigit()
    assert unknown == "! Error: No such tool available: mcp__calc__gone"
    assert (result.final_response, result.turns) == ("Fertig ✓", 2)
    assert (result.limit_reached, result.timeout_reached) == (False, False)
    spent = api.spent
    assert (result.usage.input_tokens, result.usage.output_tokens, result.usage.total_tokens) == (
        spent.input_tokens,
        spent.output_tokens,
        spent.total_tokens,
    )
    assert (result.usage.cache_read_tokens, result.actual_model) == (5, "claude-test")
    assert result.session_id is not None

    first = api.bodies[0]
    assert sorted(tool["name"] for tool in first["tools"]) == [
        "mcp__calc__add",
        "mcp__calc__draw",
        "mcp__calc__fail",
        "mcp__calc__odd_n_me",
        "mcp__plait__twice",
        "mcp__time__get_timestamp",
    ]
    assert (first["max_tokens"], first["system"][-1]["text"]) == (777, "Be kind.")
    assert first["messages"][0]["content"] == "/leak @CLAUDE.md"
    added, _, drawn, failed, *_ = wire_results(api)
    assert added["content"] == [{"type": "text", "text": "3"}]
    assert [block["type"] for block in drawn["content"]][:2] == ["text", "image"]
    assert failed["is_error"] is True
    sent = json.dumps([[dict(asked.headers), asked.body] for asked in api.requests])
    assert CANARY not in sent
    assert "INSTRUCTIONS_OF_THE_SERVER" not in sent
    assert "RAN" not in " ".join(files(home))


async def test_a_login_is_used_without_anything_else_of_the_person(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    login = {"accessToken": "sk-ant-oat01-login", "refreshToken": "r", "expiresAt": 9999999999999}
    login |= {"scopes": ["user:inference", "user:profile"], "subscriptionType": "max"}
    write(home / ".claude" / ".credentials.json", json.dumps({"claudeAiOauth": login}))
    script = [Say(calls=(wish("calc__add", a=1, b=2),)), Say("3")]
    with AnthropicServer(script, key="sk-ant-oat01-login") as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        settings = model(api, anthropic_base_url=None, anthropic_api_key=None)
        config = AgentConfig(workspace_path=home / "work")
        result = await get_agent(settings).arun(ASK, None, {"calc": calc()}, config)

    assert result.final_response == "3"
    sent = json.dumps([[dict(asked.headers), asked.body] for asked in api.requests])
    assert CANARY not in sent
    assert len(api.bodies[0]["tools"]) == 4
    assert not [name for name in files(home) if name.endswith(("_RAN", ".jsonl"))]


def test_an_answer_without_a_word_ends_the_run_which_may_block() -> None:
    """No servers and no tools; what was said before stands in the prompt."""
    before = [Message.user("Who are you?"), Message.assistant("An agent."), Message.user("And?")]
    with AnthropicServer([Say(""), Say("asked again")], only_with_tools=False) as api:
        result = get_agent(model(api)).run(before)

    assert len(api.requests) <= 2  # it may have asked again before it was stopped
    assert [message.content for message in result.trace_messages] == [[]]
    assert result.final_response == "[No final response extracted]"
    assert (result.turns, result.limit_reached) == (1, False)
    first, last = api.reported[0]["input_tokens"], api.spent.input_tokens
    assert first <= result.usage.input_tokens <= last
    assert api.bodies[0]["messages"][0]["content"] == (
        "This is what was said before:\n\n--- Human Message ---\nWho are you?\n\n"
        "--- AI Message ---\nAn agent.\n\n--- Now ---\nAnd?"
    )
    assert not api.bodies[0].get("tools")


async def test_a_program_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    write(tmp_path / "broken", '#!/bin/sh\necho "no luck with $ANTHROPIC_API_KEY" >&2\nexit 3\n')
    (tmp_path / "broken").chmod(0o700)
    told: dict[str, AgentExecutionError] = {}
    with AnthropicServer([]) as api:
        for name in ("broken", "gone"):
            settings = model(api, extra_kwargs={"cli_path": tmp_path / name})
            with pytest.raises(AgentExecutionError) as caught:
                await get_agent(settings).arun(ASK)
            told[name] = caught.value

    assert "no luck with ***" in str(told["broken"])
    assert told["broken"].stderr == "no luck with ***"
    assert "pip install 'plait[claude]'" in str(told["gone"])


async def test_a_run_that_is_cancelled_leaves_its_trace_and_no_program(tmp_path: Path) -> None:
    called = asyncio.Event()

    def hear(event: TraceEvent) -> None:
        if isinstance(event, ToolCalled):
            called.set()

    config = AgentConfig(on_event=hear, trace=tmp_path / "run.jsonl")
    with AnthropicServer([Say("Wait.", calls=(wish("calc__odd_n_me"),))]) as api:
        task = asyncio.create_task(get_agent(model(api)).arun(ASK, None, {"calc": calc()}, config))
        async with asyncio.timeout(60):
            await called.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    lines = (tmp_path / "run.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["event"] for line in lines]
    assert [kind for kind in kinds if kind != "tool"] == ["run", "turn", "tool_call", "end"]


POLICY = {
    "rules": [
        {"tool": "calc/add", "when": {"a": "1"}, "do": "deny", "reason": "not that one"},
        {"tool": "calc/add", "when": {"a": "2"}, "do": "ask"},
        {"tool": "calc/add", "when": {"a": "3"}, "do": "ask"},
        {"tool": "calc/add", "when": {"a": "4"}, "do": "ask"},
        {"tool": "calc/fail", "do": "deny"},
    ],
    "default": "allow",
}


def decide(request: ApprovalRequest) -> object:
    match request.arguments["a"]:
        case 2:
            return True
        case 3:
            return Approval("edit", {"a": 30, "b": 0})
        case _:
            return Approval("reject", message="too much")


async def test_an_answer_of_a_person_that_means_nothing_ends_the_run() -> None:
    options = {"policy": POLICY, "on_approval": lambda _request: "maybe"}
    config = AgentConfig(tool_options=options)
    script = [Say(calls=(wish("calc__add", a=2, b=0),)), Say("Done.")]
    with AnthropicServer(script) as api, pytest.raises(ConfigError, match="on_approval must"):
        await get_agent(model(api)).arun(ASK, None, {"calc": calc()}, config)


SERVER = """
import os
from mcp.server import MCPServer
server = MCPServer("env")
@server.tool(structured_output=False)
def add(a: int, b: int) -> str: return str(a + b)
@server.tool(structured_output=False)
def has(name: str) -> str: return str(name in os.environ)
@server.tool(structured_output=False)
def hidden() -> str: return "seen"
server.run()
"""


async def test_servers_can_be_left_to_the_program(tmp_path: Path) -> None:
    write(tmp_path / "server.py", SERVER)
    servers: Any = {
        "calc": {
            "command": sys.executable,
            "args": [str(tmp_path / "server.py")],
            "env": {"TOKEN_OF_SERVER": "canary-of-server"},
        }
    }
    lines: list[list[str]] = []

    def hear(event: TraceEvent) -> None:
        if isinstance(event, Turn) and not lines:
            lines.extend(processes())

    config = AgentConfig(
        extra={"pass_through_servers": True},
        tool_options={"policy": POLICY, "on_approval": decide},
        on_event=hear,
    )
    calls = (
        *(wish("calc__add", a=a, b=0) for a in (0, 1, 3, 4)),
        wish("calc__has", name="TOKEN_OF_SERVER"),
        wish("calc__has", name="ANTHROPIC_API_KEY"),
        wish("calc__hidden"),
        wish("plait__own"),
    )
    with AnthropicServer([Say(calls=calls), Say("Done.")]) as api:
        settings = model(api, mcp_tool_filter=["add", "has"], system_prompt="SYSTEM_CANARY")
        own = StaticTool("own", function=lambda: "mine")
        result = await get_agent(settings).arun(ASK, [own], servers, config)

    names = [call.name for call in result.trace_messages[0].tool_calls]
    assert names == ["add"] * 4 + ["has"] * 2 + ["mcp__calc__hidden", "own"]
    first, denied, edited, rejected, *seen, hidden, mine = answers(result)
    assert (first, edited, mine) == ("0", "30", "mine")
    assert "not that one" in denied
    assert "too much" in rejected
    assert seen == ["True", "False"]
    assert hidden == "! mcp__calc__hidden is not a tool of this run."
    (line,) = lines
    assert not [word for word in line if "canary" in word.lower() or KEY in word]


@pytest.mark.parametrize("guard", ["lockfile", "annotations"])
async def test_a_guard_is_not_passed_by_with_servers_of_the_programs_own(
    tmp_path: Path, guard: str
) -> None:
    lockfile = tmp_path / "plait.lock.json"
    write_lockfile(Lockfile({}), lockfile)
    by_hints = {"rules": [{"annotation": "read-only", "do": "allow"}], "default": "deny"}
    options = {"lockfile": str(lockfile)} if guard == "lockfile" else {"policy": by_hints}
    with AnthropicServer([]) as api:
        config = AgentConfig(extra={"pass_through_servers": True}, tool_options=options)
        with pytest.raises(ConfigError, match=guard):
            await get_agent(model(api)).arun(ASK, None, {"calc": calc()}, config)
    assert api.requests == []


async def test_what_the_program_cannot_reach_is_refused_by_name() -> None:
    with AnthropicServer([]) as api:
        config = AgentConfig(extra={"pass_through_servers": True})
        with pytest.raises(ConfigError, match=r"calc: .* in-process"):
            await get_agent(model(api)).arun(ASK, None, {"calc": calc()}, config)
    assert api.requests == []
