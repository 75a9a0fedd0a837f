"""A configuration that is missing or wrong ends every command with code 4 and a reason."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from plait.cli import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLAIT_TRUST", "1")
    for name in ("PLAIT_CONFIG", "XDG_CONFIG_HOME", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "arguments",
    [
        ("servers",),
        ("tools",),
        ("call", "a", "b"),
        ("resources",),
        ("read", "a", "b"),
        ("prompts",),
        ("prompt", "a", "b"),
    ],
)
def test_without_a_configuration_a_command_says_where_it_looked(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)

    assert result.exit_code == 4
    assert result.stdout == ""
    assert result.stderr.startswith("error: no configuration found; looked for --config,")
    assert "hint: `plait init` creates one" in result.stderr


def test_the_configuration_may_be_named_before_or_after_the_command(folder: Path) -> None:
    (folder / "other.json").write_text('{"mcpServers": {"a": {"command": "sh"}}}')

    before = run("--config", "other.json", "servers", "--no-connect")
    after = run("servers", "--no-connect", "-c", "other.json")

    assert (before.exit_code, after.exit_code) == (0, 0)
    assert before.stdout == after.stdout
    assert "sh" in before.stdout


def test_all_problems_are_listed_under_their_file(folder: Path) -> None:
    servers = {"a": {"command": 5}, "b": {"command": "x", "env": {"K": "${UNSET_VARIABLE_X}"}}}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    result = run("tools")

    assert result.exit_code == 4
    assert result.stderr.startswith(f"error: 2 problems in {folder / 'mcp.json'}\n")
    assert "  mcpServers.a.command: " in result.stderr
    assert "UNSET_VARIABLE_X" in result.stderr
    assert "Traceback" not in result.stderr


def test_verbose_shows_the_traceback(folder: Path) -> None:
    result = run("tools", "-v")

    assert "Traceback" in result.stderr
    assert result.stderr.rstrip().endswith("hint: `plait init` creates one")


def test_an_unknown_server_is_answered_with_the_nearest(folder: Path) -> None:
    (folder / "mcp.json").write_text('{"mcpServers": {"files": {"command": "sh"}}}')

    result = run("tools", "fils")

    assert result.exit_code == 4
    assert result.stderr == "error: there is no server 'fils': did you mean 'files'?\n"


def test_a_tool_written_into_the_name_of_its_server_is_answered_with_both(folder: Path) -> None:
    (folder / "mcp.json").write_text('{"mcpServers": {"files": {"command": "sh"}}}')

    result = run("call", "files/read", "path=x")

    expected = "write the server and the tool as two words: files read"
    assert result.stderr == f"error: there is no server 'files/read': {expected}\n"


def test_a_disabled_server_is_not_an_unknown_one(folder: Path) -> None:
    (folder / "mcp.json").write_text(
        '{"mcpServers": {"files": {"command": "sh", "disabled": true}}}'
    )

    result = run("tools", "files")

    assert result.exit_code == 4
    assert "the server 'files' is disabled in" in result.stderr


def test_with_json_a_failed_call_is_still_one_object_on_stdout(folder: Path) -> None:
    (folder / "mcp.json").write_text('{"mcpServers": {"files": {"command": "sh"}}}')

    result = run("call", "fils", "read_file", "--json")

    assert result.exit_code == 4
    assert result.stderr == ""
    assert json.loads(result.stdout) == {
        "server": "fils",
        "tool": "read_file",
        "is_error": True,
        "content": [],
        "structured_content": None,
        "error": {
            "type": "config_error",
            "error": "UnknownServerError",
            "message": "there is no server 'fils': did you mean 'files'?",
            "client": "fils",
            "retryable": False,
            "retry": "never",
        },
    }


def test_configured_servers_are_listed_without_starting_them(folder: Path) -> None:
    servers = {
        "files": {"command": "no-such-program", "args": ["--token", "hunter2hunter2"]},
        "web": {"url": "https://user:hunter2hunter2@example.com/mcp"},
        "off": {"command": "sh", "disabled": True},
    }
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))

    listed = json.loads(run("servers", "--no-connect", "--json").stdout)
    table = run("servers", "--no-connect").stdout

    assert [(entry["name"], entry.get("target"), entry["disabled"]) for entry in listed] == [
        ("files", "no-such-program --token ***", False),
        ("web", "https://example.com/mcp", False),
        ("off", None, True),
    ]
    assert table.splitlines() == [
        "server  transport  target",
        "files   stdio      no-such-program --token ***",
        "web     http       https://example.com/mcp",
        "off     –          disabled",
    ]


def test_the_doctor_reports_a_broken_configuration_as_findings(folder: Path) -> None:
    (folder / "mcp.json").write_text('{"mcpServers": {"a": {"command": "${UNSET_VARIABLE_X}"}}}')

    result = run("doctor", "--json")

    assert result.exit_code == 4
    report = json.loads(result.stdout)
    assert report["ok"] is False
    assert [(found["level"], found["code"]) for found in report["findings"]] == [
        ("error", "unset_variable")
    ]
    assert run("doctor").stdout.splitlines()[0] == "configuration"


@pytest.mark.parametrize("command", [["run", "Hello"], ["chat"]])
@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("anthropic:claude-x", "there is no key for Anthropic's API"),
        ("scripted:missing.json", "missing.json: the script cannot be read"),
        ("nonsense:x", "Unsupported provider='nonsense'"),
        ("local:none", "there is no local model 'none'"),
    ],
)
def test_a_model_that_cannot_be_used_is_named_before_a_server_is_started(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], model: str, text: str
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    server = {"command": "sh", "args": ["-c", "touch started; cat"]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"a": server}}))

    result = run(*command, "--model", model)

    assert result.exit_code != 0
    assert text in result.stderr
    assert not (folder / "started").exists()
