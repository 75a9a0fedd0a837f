"""A program gets what it is meant to get, and tells nothing of it through us."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from plait import ConnectError, MultiServerMCPClient, PlaitError, Toolbox
from tests.integration.canaries.search import canary, found_in, texts_of, texts_of_records

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

LEAKING = str(Path(__file__).with_name("leaking_server.py"))

SECRETS = {
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GOOGLE_API_KEY",
    "GITHUB_TOKEN",
    "LANGSMITH_API_KEY",
    "DATABASE_URL",
    "PYTHONPATH",
    "LD_PRELOAD_NOTE",
}

PASSED_ON = {
    "LANG": "C.UTF-8",
    "LC_TIME": "C",
    "TMPDIR": "/tmp",
    "http_proxy": "http://proxy.test:3128",
    "HTTPS_PROXY": "http://proxy.test:3128",
    "NO_PROXY": "localhost",
    "SSL_CERT_FILE": "/ca.pem",
    "npm_config_cache": "/npm",
    "NPM_CONFIG_PREFIX": "/npm",
    "UV_CACHE_DIR": "/uv",
}

ALWAYS = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER"}


def telling(mode: str, *args: str, **more: Any) -> dict[str, Any]:
    """Return the configuration of a server that tells everything."""
    return {
        "command": sys.executable,
        "args": ["-S", LEAKING, mode, *args],
        "protocol": "legacy",
        "default_tool_timeout": 1.0,
        "close_timeout": 1.0,
        "reconnect": {"max_attempts": 1},
        **more,
    }


@pytest.mark.parametrize("mode", ["never", "exit", "kill", "hang", "garbage", "protocol error"])
async def test_a_program_that_fails_gives_nothing_away(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="plait")
    key, plain, lines = canary(), canary(), f"{canary()}\n{canary()}"
    env = {"API_KEY": key, "TEAM": plain, "PRIVATE_KEY": lines}
    flag, pair = canary(), canary()
    server = telling(mode, "--token", flag, f"--password={pair}", env=env)
    secrets = [key, plain, *lines.splitlines(), flag, pair]
    async with Toolbox({"shop": server}) as box:
        with pytest.raises(PlaitError) as caught:
            await box.call("shop", "tell")
        status = box.status()
        seen = [repr(box), repr(box.config), repr(status), str(status.to_dict()), status.summary]
    seen += [*texts_of(caught.value), *texts_of_records(caplog.records)]

    assert "got ***" in "".join(seen)
    assert len(str(caught.value)) < 600
    assert found_in(seen, secrets) == []


async def test_what_a_program_was_given_for_a_run_is_hidden_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="plait")
    secret = canary()
    server = telling("exit", env=lambda run: {"TEAM": secret if run is not None else ""})
    async with MultiServerMCPClient({"shop": server}) as client:
        (tell,) = await client.get_tools(config={"configurable": {}})
        call = {"type": "tool_call", "id": "1", "name": "tell", "args": {}}
        message = await tell.ainvoke(call, {"configurable": {}})
        seen = [repr(message), repr(client), str(client.status().to_dict())]

    assert message.status == "error"
    assert "stderr: " in message.content
    assert found_in([*seen, *texts_of_records(caplog.records)], [secret]) == []


async def test_the_command_of_a_program_that_is_not_there_shows_no_key() -> None:
    secret = f"sk-{canary()}"
    for command in (f"/nowhere/{secret}", f"nowhere --token={secret}"):
        async with Toolbox({"shop": {"command": command, "args": ["--key", secret]}}) as box:
            with pytest.raises(PlaitError) as caught:
                await box.tools()
            seen = [*texts_of(caught.value), repr(box.config), str(box.status().to_dict())]

        assert found_in(seen, [secret]) == []


async def test_a_program_sees_the_usual_variables_and_its_own_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in os.environ:
        if name not in ALWAYS:
            monkeypatch.delenv(name)
    for name in [*SECRETS, "SHARED", "SHARED_TOO"]:
        monkeypatch.setenv(name, f"value of {name}")
    for name, value in PASSED_ON.items():
        monkeypatch.setenv(name, value)
    server = telling("env", env={"OWN": "1", "LANG": "de"}, inherit_env=["SHARED*"])
    async with Toolbox({"shop": server}) as box:
        seen = json.loads((await box.call("shop", "tell")).text)

    expected = {name: os.environ[name] for name in ALWAYS if name in os.environ}
    shared = {name: f"value of {name}" for name in ("SHARED", "SHARED_TOO")}
    # The interpreter of the program may set this by itself.
    seen.pop("LC_CTYPE", None)
    assert seen.pop("PLAIT_CHILD").isdigit()
    assert seen == {**expected, **PASSED_ON, **shared, "OWN": "1", "LANG": "de"}


async def test_no_helper_process_shows_a_secret_in_its_command_line() -> None:
    secret = canary()
    async with Toolbox({"shop": telling("well", env={"API_KEY": secret})}) as box:
        await box.call("shop", "tell")
        children = psutil.Process().children(recursive=True)
        lines = [" ".join(child.cmdline()) for child in children]

    assert any("_watchdog" in line for line in lines)
    assert found_in(lines, [secret]) == []


async def test_a_value_written_in_two_pieces_is_hidden_in_standard_error() -> None:
    program = (
        "import os, sys, time\n"
        "key = os.environ['SHOP_KEY']\n"
        "for piece in ('starting with ', key[:7], key[7:], '!\\n'):\n"
        "    os.write(2, piece.encode())\n"
        "    time.sleep(0.02)  # each piece is read by itself\n"
        "sys.exit(3)\n"
    )
    secret = "c4n4ry-split-in-two"
    server = {"command": sys.executable, "args": ["-c", program], "env": {"SHOP_KEY": secret}}
    async with Toolbox({"shop": {**server, "reconnect": {"max_attempts": 1}}}) as box:
        with pytest.raises(ConnectError) as caught:
            await box.tools("shop")
        tail = box.status().servers["shop"].stderr_tail

    assert "starting with ***!" in tail
    assert not [piece for piece in (secret[:7], secret[7:]) if piece in f"{caught.value} {tail}"]
