"""Agents over servers that were not written here: every tool, every content, every accident."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage

from plait import MCPToolsMiddleware, MultiServerMCPClient
from plait.testing.faults.tools import PNG, WAV
from tests.integration.agents.helpers import arun, at_once, one_by_one, run, tool_call
from tests.nursery import fault_server
from tests.servers import everything_stdio_config, node_stdio_config

pytestmark = pytest.mark.timeout(120)

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files and a git repository, by its real path: the servers compare it."""
    folder = tmp_path_factory.mktemp("agents").resolve()
    (folder / "hello.txt").write_text("hello from a file")
    (folder / "pixel.png").write_bytes(PNG)
    (folder / "silence.wav").write_bytes(WAV)
    repo = folder / "repo"
    author = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
    subprocess.run(["git", "init", "-q", "-b", "main", repo], check=True)
    subprocess.run(["git", "-C", repo, "config", "user.name", "Ann"], check=True)
    subprocess.run(["git", "-C", repo, "config", "user.email", "ann@example.com"], check=True)
    (repo / "a.txt").write_text("one\n")
    subprocess.run(["git", "-C", repo, "add", "a.txt"], check=True)
    subprocess.run(["git", *author, "-C", repo, "commit", "-q", "-m", "first"], check=True)
    (repo / "a.txt").write_text("two\n")
    return folder


@pytest.fixture(scope="module")
def client(folder: Path) -> Generator[MultiServerMCPClient]:
    """One client over five foreign servers, and one that drops its connections."""
    with fault_server(die_by="drop") as dropping:
        servers: dict[str, Any] = {
            "everything": everything_stdio_config(),
            "files": node_stdio_config("filesystem", str(folder)),
            "memory": node_stdio_config(
                "memory", env={"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
            ),
            "time": {"command": str(BIN / "mcp-server-time"), "args": ["--local-timezone", "UTC"]},
            "git": {"command": str(BIN / "mcp-server-git"), "args": ["-r", str(folder / "repo")]},
            "dropping": {"url": dropping.url, "include": ["pay_and_die", "pid", "audio"]},
        }
        with MultiServerMCPClient(servers) as client:
            client.get_tools_blocking()  # starts the servers, which all tests share
            yield client


FOREIGN = ("everything", "files", "memory", "time", "git")


def _calls(folder: Path) -> list[tuple[str, dict[str, Any], str]]:
    """Return a sensible call of every tool, in an order that works, and what is in its answer."""
    hello, repo = str(folder / "hello.txt"), str(folder / "repo")
    there = {"path": str(folder)}
    entity = {"name": "plait", "entityType": "library", "observations": ["heals"]}
    other = {"name": "python", "entityType": "language", "observations": []}
    relation = {"from": "plait", "to": "python", "relationType": "is written in"}
    return [
        ("echo", {"message": "hi"}, "Echo: hi"),
        ("get-annotated-message", {"messageType": "error", "includeImage": True}, "Error"),
        ("get-env", {}, "PATH"),
        ("get-resource-links", {"count": 2}, "demo://resource"),
        ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}, "demo://resource"),
        ("get-structured-content", {"location": "Chicago"}, "temperature"),
        ("get-sum", {"a": 2, "b": 3}, "The sum of 2 and 3 is 5."),
        ("get-tiny-image", {}, "MCP logo"),
        ("gzip-file-as-resource", {"name": "x.gz", "data": "data:,abc"}, "x.gz"),
        ("toggle-simulated-logging", {}, "logging"),
        ("toggle-simulated-logging", {}, "logging"),
        ("toggle-subscriber-updates", {}, "updates"),
        ("toggle-subscriber-updates", {}, "updates"),
        ("trigger-long-running-operation", {"duration": 0.2, "steps": 2}, "completed"),
        ("simulate-research-query", {"topic": "tides"}, ""),
        ("trigger-elicitation-request", {}, "decline"),
        ("trigger-url-elicitation", {"url": "https://example.com/"}, ""),
        ("read_file", {"path": hello}, "hello from a file"),
        ("read_text_file", {"path": hello, "head": 1}, "hello from a file"),
        ("read_media_file", {"path": str(folder / "pixel.png")}, ""),
        ("read_multiple_files", {"paths": [hello, hello]}, "hello from a file"),
        ("write_file", {"path": str(folder / "new.txt"), "content": "new"}, "new.txt"),
        (
            "edit_file",
            {"path": str(folder / "new.txt"), "edits": [{"oldText": "new", "newText": "newer"}]},
            "+newer",
        ),
        ("create_directory", {"path": str(folder / "sub")}, "sub"),
        ("list_directory", there, "[FILE] hello.txt"),
        ("list_directory_with_sizes", {**there, "sortBy": "size"}, "hello.txt"),
        ("directory_tree", {**there, "excludePatterns": ["repo"]}, "hello.txt"),
        (
            "move_file",
            {"source": str(folder / "new.txt"), "destination": str(folder / "sub" / "moved.txt")},
            "moved.txt",
        ),
        ("search_files", {**there, "pattern": "**/moved*"}, "moved.txt"),
        ("get_file_info", {"path": hello}, "size"),
        ("list_allowed_directories", {}, str(folder)),
        ("create_entities", {"entities": [entity, other]}, "plait"),
        ("create_relations", {"relations": [relation]}, "is written in"),
        (
            "add_observations",
            {"observations": [{"entityName": "plait", "contents": ["fast"]}]},
            "fast",
        ),
        ("read_graph", {}, "heals"),
        ("search_nodes", {"query": "library"}, "plait"),
        ("open_nodes", {"names": ["python"]}, "language"),
        (
            "delete_observations",
            {"deletions": [{"entityName": "plait", "observations": ["fast"]}]},
            "",
        ),
        ("delete_relations", {"relations": [relation]}, ""),
        ("delete_entities", {"entityNames": ["python"]}, ""),
        ("get_current_time", {"timezone": "UTC"}, "UTC"),
        (
            "convert_time",
            {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
            "21:00",
        ),
        ("git_status", {"repo_path": repo}, "a.txt"),
        ("git_diff_unstaged", {"repo_path": repo}, "+two"),
        ("git_add", {"repo_path": repo, "files": ["a.txt"]}, "staged"),
        ("git_diff_staged", {"repo_path": repo, "context_lines": 1}, "+two"),
        ("git_reset", {"repo_path": repo}, "reset"),
        ("git_add", {"repo_path": repo, "files": ["a.txt"]}, "staged"),
        ("git_commit", {"repo_path": repo, "message": "second"}, "committed"),
        ("git_log", {"repo_path": repo, "max_count": 2}, "second"),
        ("git_diff", {"repo_path": repo, "target": "HEAD~1"}, "-one"),
        ("git_create_branch", {"repo_path": repo, "branch_name": "side"}, "side"),
        ("git_checkout", {"repo_path": repo, "branch_name": "side"}, "side"),
        ("git_show", {"repo_path": repo, "revision": "HEAD"}, "second"),
        ("git_branch", {"repo_path": repo, "branch_type": "local"}, "main"),
    ]


@pytest.mark.usefixtures("heals_shared_servers")
def test_an_agent_calls_every_tool_of_every_server(
    client: MultiServerMCPClient, folder: Path
) -> None:
    tools = client.get_tools_blocking(*FOREIGN)
    calls = _calls(folder)
    assert {tool.name for tool in tools} == {name for name, _, _ in calls}

    answers = run(one_by_one(*(tool_call(name, **args) for name, args, _ in calls)), tools)

    assert len(answers) == len(calls)
    assert [answer.name for answer in answers] == [name for name, _, _ in calls]
    unexpected = {
        name: answer.content
        for (name, _, expected), answer in zip(calls, answers, strict=True)
        if not answer.content or expected not in str(answer.content)
    }
    assert unexpected == {}
    failed = {answer.name: answer.content for answer in answers if answer.status == "error"}
    assert set(failed) <= {"simulate-research-query"}, failed
    for answer in answers:
        assert set(answer.artifact) >= {"structured_content", "content", "_meta", "server", "tool"}
    assert {answer.artifact["server"] for answer in answers} == set(FOREIGN)
    assert all(client.status()[name].sessions == 1 for name in FOREIGN)


@pytest.fixture(scope="module")
def contents(client: MultiServerMCPClient, folder: Path) -> dict[str, ToolMessage]:
    """What the tools answered that have more to say than text."""
    links = {"count": 2}
    file = {"name": "x.gz", "data": "data:,abc", "outputType": "resource"}
    calls = [
        tool_call("get-tiny-image"),
        tool_call("get-resource-links", **links),
        tool_call("get-resource-reference", resourceType="Text", resourceId=1),
        tool_call("gzip-file-as-resource", **file),
        tool_call("get-structured-content", location="Chicago"),
        tool_call("read_media_file", path=str(folder / "silence.wav")),
        tool_call("audio"),
    ]
    answers = run(at_once(*calls), client.get_tools_blocking())
    assert [answer.status for answer in answers] == ["success"] * len(calls)
    return {str(answer.name): answer for answer in answers}


def _kinds(message: ToolMessage) -> list[str]:
    return [block["type"] for block in message.content_blocks]


def test_an_image_arrives_as_an_image(contents: dict[str, ToolMessage]) -> None:
    message = contents["get-tiny-image"]

    assert _kinds(message) == ["text", "image", "text"]
    image: Any = message.content_blocks[1]
    assert image["mime_type"] == "image/png"
    assert base64.b64decode(image["base64"]).startswith(b"\x89PNG")


def test_a_sound_is_kept_for_the_program_because_graphs_cannot_carry_it(
    contents: dict[str, ToolMessage],
) -> None:
    message = contents["audio"]

    assert [block["text"] for block in message.content] == [  # pyright: ignore[reportArgumentType]
        "silence",
        "[audio/wav, 48 B, not shown]",
    ]
    (sound,) = message.artifact["content"]
    assert sound["mimeType"] == "audio/wav"
    assert base64.b64decode(sound["data"]) == WAV


def test_a_file_that_a_server_repeats_as_structured_content_is_not_read_in_base64(
    contents: dict[str, ToolMessage],
) -> None:
    message = contents["read_media_file"]

    assert message.artifact["structured_content"]["content"][0]["type"] == "audio"
    assert base64.b64decode(message.artifact["content"][0]["data"]) == WAV
    assert message.content == "[audio/wav, 48 B, not shown]"


def test_outside_of_a_graph_a_sound_arrives_as_a_sound(client: MultiServerMCPClient) -> None:
    (audio,) = client.get_tools_blocking(include=["audio"])

    text, sound = audio.invoke({})

    assert text["text"] == "silence"
    assert sound["type"] == "audio"
    assert base64.b64decode(sound["base64"]) == WAV


def test_links_tell_where_to_read_on(contents: dict[str, ToolMessage]) -> None:
    message = contents["get-resource-links"]

    assert "demo://resource" in str(message.content)
    assert len(message.content_blocks) == 3


def test_an_embedded_resource_is_kept_whole_in_the_artifact(
    contents: dict[str, ToolMessage],
) -> None:
    text = contents["get-resource-reference"]
    blob = contents["gzip-file-as-resource"]

    (kept,) = [block for block in text.artifact["content"] if block["type"] == "resource"]
    assert "Resource 1" in kept["resource"]["text"]
    assert kept["resource"]["uri"] in str(text.content)
    (packed,) = [block for block in blob.artifact["content"] if block["type"] == "resource"]
    assert base64.b64decode(packed["resource"]["blob"]).startswith(b"\x1f\x8b")


def test_structured_content_is_kept_and_not_said_twice(contents: dict[str, ToolMessage]) -> None:
    message = contents["get-structured-content"]

    assert message.artifact["structured_content"]["temperature"] == 36
    assert str(message.content).count("temperature") == 1


@pytest.mark.usefixtures("heals_shared_servers")
@pytest.mark.parametrize("each_turn", [False, True], ids=["tools once", "tools each turn"])
@pytest.mark.parametrize("blocking", [False, True], ids=["ainvoke", "invoke"])
def test_a_run_goes_on_through_every_kind_of_failure(
    client: MultiServerMCPClient, folder: Path, blocking: bool, each_turn: bool
) -> None:
    tools = MCPToolsMiddleware(client) if each_turn else client.get_tools_blocking()
    killed: list[int] = []

    def kill_the_file_server(_: Any) -> Any:
        pid = client.status()["files"].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)
        return [tool_call("read_text_file", path=str(folder / "hello.txt"))]

    script = [
        [tool_call("read_text_file", path=str(folder / "missing.txt"))],
        [tool_call("get-sum", a="two", b=3)],
        [tool_call("pay_and_die", amount=5)],
        [tool_call("pid")],
        kill_the_file_server,
        [tool_call("echo", message="still here")],
        "done",
    ]

    answers = run(script, tools) if blocking else asyncio.run(arun(script, tools))

    missing, wrong, lost, alive, healed, last = answers
    assert [answer.status for answer in answers] == ["error"] * 3 + ["success"] * 3
    assert "ENOENT" in str(missing.content)
    assert "get-sum" in str(wrong.content)
    assert "a" in str(wrong.content)
    assert wrong.artifact["error"]["error"] == "InvalidArgumentsError"
    assert lost.artifact["error"]["error"] == "OutcomeUnknownError"
    assert "check" in str(lost.content)
    assert str(alive.content).isdigit()
    assert healed.content == "hello from a file"
    assert client.status()["files"].pid not in killed
    assert last.content == "Echo: still here"


def test_a_tool_that_is_filtered_out_is_refused_even_when_it_is_called_by_name(
    folder: Path,
) -> None:
    target = folder / "never.txt"
    servers: Any = {"files": node_stdio_config("filesystem", str(folder))}
    with MultiServerMCPClient(servers) as client:
        (write,) = client.get_tools_blocking(include=["write_file"])
    with MultiServerMCPClient(servers, include=["@read_only"]) as client:
        tools = client.get_tools_blocking()
        assert "write_file" not in {tool.name for tool in tools}
        call = tool_call("write_file", path=str(target), content="x")
        tool = type(write)(write.tool, client.runner())  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]

        (answer,) = run(one_by_one(call), [tool])
        (gone,) = run(one_by_one({**call, "id": "2"}), MCPToolsMiddleware(client))

        assert answer.status == gone.status == "error"
        assert "not offered" in str(answer.content)
        assert answer.artifact["error"]["error"] == "PermissionDeniedError"
        assert "write_file" in str(gone.content)
    assert not target.exists()
