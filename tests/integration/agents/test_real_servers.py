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

from plait import MCPToolsMiddleware, MultiServerMCPClient
from plait.testing.faults.fault_server import PNG, WAV
from tests.integration.agents.helpers import arun, at_once, one_by_one, run, tool_call
from tests.nursery import fault_server
from tests.servers import everything_stdio_config, node_stdio_config, raw_stdio_config

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


def test_images_sounds_links_and_files_arrive_as_what_they_are(
    client: MultiServerMCPClient, folder: Path
) -> None:
    file = {"name": "x.gz", "data": "data:,abc", "outputType": "resource"}
    calls = [
        tool_call("get-tiny-image"),
        tool_call("get-resource-links", count=2),
        tool_call("get-resource-reference", resourceType="Text", resourceId=1),
        tool_call("gzip-file-as-resource", **file),
        tool_call("get-structured-content", location="Chicago"),
        tool_call("read_media_file", path=str(folder / "silence.wav")),
        tool_call("audio"),
    ]

    answers = run(at_once(*calls), client.get_tools_blocking())

    assert [answer.status for answer in answers] == ["success"] * len(calls)
    image, links, text, packed, structured, media, sound = answers
    assert [block["type"] for block in image.content_blocks] == ["text", "image", "text"]
    block: Any = image.content_blocks[1]
    assert block["mime_type"] == "image/png"
    assert base64.b64decode(block["base64"]).startswith(b"\x89PNG")
    assert "demo://resource" in str(links.content)
    assert len(links.content_blocks) == 3
    # What a graph cannot carry, or a model cannot read, is whole in the artifact.
    (kept,) = [block for block in text.artifact["content"] if block["type"] == "resource"]
    assert "Resource 1" in kept["resource"]["text"]
    assert kept["resource"]["uri"] in str(text.content)
    (kept,) = [block for block in packed.artifact["content"] if block["type"] == "resource"]
    assert base64.b64decode(kept["resource"]["blob"]).startswith(b"\x1f\x8b")
    assert structured.artifact["structured_content"]["temperature"] == 36
    assert str(structured.content).count("temperature") == 1
    # This server repeats the file as structured content.
    assert media.artifact["structured_content"]["content"][0]["type"] == "audio"
    assert media.content == "[audio/wav, 48 B, not shown]"
    (silence, _) = (one.artifact["content"][0] for one in (media, sound))
    assert base64.b64decode(silence["data"]) == WAV
    assert [block["text"] for block in sound.content] == [  # pyright: ignore[reportArgumentType]
        "silence",
        "[audio/wav, 48 B, not shown]",
    ]
    (audio,) = client.get_tools_blocking(include=["audio"])
    said, heard = audio.invoke({})  # outside of a graph
    assert (said["text"], heard["type"]) == ("silence", "audio")
    assert base64.b64decode(heard["base64"]) == WAV


def test_an_agent_reads_every_answer_of_a_sloppy_server() -> None:
    expected = {
        "good": "good",
        "unknown-block": "hologram",
        "uri-only-resource": "://",
        "image-without-type": "",
        "link-without-name": "",
        "no-content": "total",
        "content-string": "just a string",
        "content-object": "one block",
        "breaks-schema": "",
    }
    with MultiServerMCPClient({"raw": raw_stdio_config("all")}) as client:
        tools = client.get_tools_blocking()
        answers = run(at_once(*(tool_call(name) for name in expected)), tools)

    assert [answer.name for answer in answers] == list(expected)
    assert [answer.status for answer in answers] == ["success"] * len(expected)
    for answer, (name, text) in zip(answers, expected.items(), strict=True):
        assert answer.content, name
        assert text in str(answer.content), name
    assert answers[-1].artifact["structured_content"] == {"total": "many"}


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
