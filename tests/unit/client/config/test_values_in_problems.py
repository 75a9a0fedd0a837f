"""A mistake in a configuration is told without the value, which may be a secret."""

from __future__ import annotations

import json
import logging
import traceback
from pathlib import Path
from typing import Any

import pytest

from plait import ConfigError, read_config

CANARY = "canary-1f0e/+9d8c7b6a"
URL = "http://127.0.0.1:9/mcp"


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": URL, "headers": CANARY},
        {"url": URL, "headers": {"X-Key": [CANARY]}},
        {"url": URL, "headers": {"X-Key": f"{CANARY}\n"}},
        {"url": f"http://ann:{CANARY}@:99999/mcp"},
        {"url": f"ftp://ann:{CANARY}@127.0.0.1/mcp?token={CANARY}"},
        {"url": f"http://[{CANARY}/mcp"},
        {"url": URL, "auth": {"type": "oauth", "client_secret": [CANARY]}},
        {"url": URL, "auth": {"type": "oauth", "client_secret": CANARY, "grant": "?"}},
        {"url": URL, "auth": CANARY},
        {"command": "x", "env": {"API_KEY": {"value": CANARY}}},
        {"command": "x", "env": [f"API_KEY={CANARY}"]},
        {"command": "x", "args": {"--token": CANARY}},
        {"command": ["x", CANARY]},
        {"command": "x", "env": {"API_KEY": f"${{env:UNSET_ONE}}{CANARY}"}},
        {"command": "x", "env": {"API_KEY": CANARY}, "inherit_env": 7},
        {"command": f"{CANARY}\0", "env": {"A": f"{CANARY}\0"}, "cwd": [CANARY]},
        {"command": "a", "args": CANARY, "env": CANARY},
        {"command": "a", "args": [{CANARY: CANARY}], "env": {"A": [CANARY]}},
        {"url": CANARY, "headers": {"A": {"B": CANARY}}, "type": [CANARY]},
        {"url": f"https://u:{CANARY}@h/", "command": CANARY},
        {"url": f"https://u:{CANARY}@h/", "type": "stdio", "argz": [CANARY]},
        {"url": f"ws://u:{CANARY}@h/", "type": "http", "auth": f"${{{CANARY} x}}"},
        {"url": f"https://h/{CANARY}${{", "timeout": CANARY, "reconnect": CANARY},
        dict.fromkeys(("command", "stderr", "protocol", "encoding"), "${TOKEN}"),
    ],
    ids=lambda wrong: json.dumps(wrong).replace(CANARY, "CANARY"),
)
def test_the_value_is_in_no_text_of_the_error(
    wrong: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"shop": wrong}}))

    for source in (file, {"shop": wrong}):
        with pytest.raises(ConfigError) as caught:
            read_config(source, environ={"TOKEN": CANARY})
        error = caught.value
        chain = "".join(traceback.format_exception(error))
        shown = [str(error), repr(error), repr(error.to_dict()), repr(error.problems), chain]
        shown.append(caplog.text)

        assert not [text for text in shown if CANARY in text]


def test_a_file_that_is_no_json_is_not_quoted(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(f'{{"mcpServers": {{"shop": {{"url": "{URL}", "token": "{CANARY}" x}}}}')

    with pytest.raises(ConfigError) as caught:
        read_config(file)

    assert CANARY not in "".join(traceback.format_exception(caught.value))
