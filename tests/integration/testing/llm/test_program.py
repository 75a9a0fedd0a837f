"""The stand-ins as programs of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from plait.testing import ServerProcess, blackhole, free_port

_PROGRAM = [sys.executable, "-m", "plait.testing.llm"]


def _run(*args: str) -> ServerProcess:
    return ServerProcess([*_PROGRAM, *args], ready=r"^(?P<url>http://\S+)$")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_serves_follows_its_script_and_ends_quietly(
    tmp_path: Path, number: signal.Signals
) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps([{"text": "from the file"}]), "utf-8")
    port = free_port()
    args = ("--script", str(script), "--key", "k", "--model", "m", "--port", str(port))
    with _run("anthropic", *args, "--every-request") as server:
        assert server.url == f"http://127.0.0.1:{port}"
        headers = {"anthropic-version": "2023-06-01", "x-api-key": "k"}
        message = {"role": "user", "content": "hello"}
        asked = {"model": "m", "max_tokens": 9, "messages": [message]}
        answer = httpx2.post(f"{server.url}/v1/messages", headers=headers, json=asked)
        assert answer.json()["content"] == [{"type": "text", "text": "from the file"}]
        os.kill(server.pid, number)
        assert server.wait(30) == 0
    assert server.log.strip() == server.url


def test_openai_is_served_too() -> None:
    with _run("openai", "--model", "a", "--model", "b") as server:
        models = httpx2.get(f"{server.url}/v1/models").json()["data"]

    assert [model["id"] for model in models] == ["a", "b"]


def test_what_cannot_be_served_is_said_without_a_traceback(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('[{"txt": 1}]', "utf-8")
    unknown = f'{script}: item 1: unknown key "txt" (did you mean "text"?'
    with blackhole() as port:
        for option, value, said in (("port", port, str(port)), ("script", script, unknown)):
            command = [*_PROGRAM, "openai", f"--{option}", str(value)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
            assert said in done.stderr
