"""The files of other programs are read as those programs mean them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from plait.client.config.read import InputRequest, read_config
from plait.client.config.servers import (
    HttpServer,
    ReconnectPolicy,
    SseServer,
    StdioServer,
    Timeouts,
)

LAYOUTS = Path(__file__).parent / "layouts"


def test_claude_desktop_keeps_its_other_settings_to_itself() -> None:
    path = LAYOUTS / "claude_desktop_config.json"

    config = read_config(path, environ={"GITHUB_TOKEN": "ghp_1"})

    assert config.warnings == ()
    assert config.options == {}
    assert config.source == str(path)
    assert config.servers["filesystem"] == StdioServer(
        command="npx",
        args=("-y", "@modelcontextprotocol/server-filesystem", "/srv/notes"),
        source=str(path),
    )
    github = config.servers["github"]
    assert isinstance(github, StdioServer)
    assert github.env == {"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_1"}


def test_claude_code_gives_types_and_defaults() -> None:
    config = read_config(LAYOUTS / "claude-code.mcp.json", environ={"API_KEY": "k"})

    api, events, local = config.servers.values()
    assert isinstance(api, HttpServer)
    assert api.url == "https://api.example.com/mcp"
    assert api.headers == {"Authorization": "Bearer k"}
    assert isinstance(events, SseServer)
    assert isinstance(local, StdioServer)
    assert config.warnings == ()


def test_cursor_knows_folders_and_switches_servers_off(tmp_path: Path) -> None:
    path = tmp_path / "work" / ".cursor" / "mcp.json"
    path.parent.mkdir(parents=True)
    shutil.copy(LAYOUTS / "cursor.mcp.json", path)

    config = read_config(path, environ={"HOME": "/home/ann", "NOTES_KEY": "n"})

    notes = config.servers["notes"]
    assert isinstance(notes, StdioServer)
    assert notes.command == "/home/ann/bin/notes"
    assert notes.args == ("--root", f"{tmp_path / 'work'}{os.sep}notes", "--key", "n")
    assert list(config.servers) == ["notes", "remote"]
    assert config.disabled == ("old",)
    assert config.warnings == ()


def test_vs_code_asks_for_its_inputs(tmp_path: Path) -> None:
    path = tmp_path / ".vscode" / "mcp.json"
    path.parent.mkdir()
    shutil.copy(LAYOUTS / "vscode.mcp.json", path)
    (tmp_path / ".env").write_text("EXTRA=from-file\nPERPLEXITY_API_KEY=from-file\n")
    asked: list[InputRequest] = []

    def ask(request: InputRequest) -> str:
        asked.append(request)
        return "us" if request.options else "pplx-1"

    config = read_config(path, environ={}, ask=ask)

    perplexity = config.servers["perplexity"]
    assert isinstance(perplexity, StdioServer)
    assert perplexity.env == {"EXTRA": "from-file", "PERPLEXITY_API_KEY": "pplx-1"}
    assert perplexity.args == ("-y", "server-perplexity-ask", "--region=us")
    assert perplexity.secrets == {"pplx-1"}
    assert asked == [
        InputRequest(
            id="region", description="Region", options=("eu", "us"), default="eu", password=False
        ),
        InputRequest(id="perplexity-key", description="Perplexity API key", password=True),
    ]
    assert config.warnings == ()


def test_vs_code_inputs_come_from_the_environment_and_defaults_without_a_terminal(
    tmp_path: Path,
) -> None:
    (tmp_path / ".env").touch()
    path = tmp_path / "mcp.json"
    shutil.copy(LAYOUTS / "vscode.mcp.json", path)

    config = read_config(path, environ={"PLAIT_INPUT_PERPLEXITY_KEY": "p"})

    perplexity = config.servers["perplexity"]
    assert isinstance(perplexity, StdioServer)
    assert perplexity.env == {"PERPLEXITY_API_KEY": "p"}
    assert perplexity.args[-1] == "--region=eu"


def test_vs_code_settings_hold_servers_among_other_things() -> None:
    config = read_config(LAYOUTS / "settings.json", environ={})

    assert list(config.servers) == ["time"]
    assert config.warnings == ()


def test_the_javascript_adapter_counts_in_milliseconds() -> None:
    config = read_config(LAYOUTS / "javascript.json", environ={})

    assert config.default_tool_timeout == 10.0
    assert config.options == {
        "throw_on_load_error": True,
        "prefix_tool_name_with_server_name": False,
        "additional_tool_name_prefix": "",
        "use_standard_content_blocks": True,
        "on_connection_error": "ignore",
        "output_handling": {"image": "artifact", "audio": "artifact"},
    }
    math, weather, github = config.servers.values()
    assert isinstance(math, StdioServer)
    assert math.stderr == "inherit"
    assert math.reconnect == ReconnectPolicy(
        max_attempts=3, first_delay_seconds=1.0, longest_delay_seconds=1.0, jitter=0.0
    )
    assert isinstance(weather, HttpServer)
    assert weather.automatic_sse_fallback is False
    assert weather.timeouts == Timeouts(call_seconds=30.0)
    assert weather.output_handling == {"image": "content"}
    assert isinstance(github, SseServer)
    assert github.reconnect == ReconnectPolicy(
        max_attempts=5, first_delay_seconds=2.0, longest_delay_seconds=2.0, jitter=0.0
    )
    assert config.warnings == ()


def test_a_server_may_be_called_servers() -> None:
    config = read_config({"servers": {"command": "a"}, "mcp": {"command": "b"}}, environ={})

    assert list(config.servers) == ["servers", "mcp"]
