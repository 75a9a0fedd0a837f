"""`plait call`, `read`, `prompt` and the lists, against real servers."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from plait.cli import main

from .conftest import Plait, ShopConfig

BROKEN = {"url": "http://127.0.0.1:9/mcp"}
Shell = Callable[..., Result]


@pytest.fixture
def shell(plait: Plait, monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Run the program in this process, by the words of a command line."""
    monkeypatch.chdir(plait.folder)
    monkeypatch.setenv("HOME", str(plait.folder / "home"))
    monkeypatch.setenv("PLAIT_TRUST", "1")
    for name in ("PLAIT_CONFIG", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)

    def run(line: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(main, line.split(), input=stdin)

    return run


@pytest.fixture
def shop(shell: Shell, with_shop: Plait) -> Shell:
    """Run the program where the shop server is configured."""
    del with_shop
    return shell


def objects(result: Result) -> Any:
    return json.loads(result.stdout)


PAIRS = (
    "query=@q.txt limit=5 ratio=0.5 exact=true tags=hot tags=5 where.organic=true where.maker=12"
)


@pytest.mark.parametrize(
    ("line", "stdout", "stderr"),
    [
        (
            f"call shop search {PAIRS}",
            "['tea', 5, 0.5, True, ['hot', '5'], {'organic': True, 'maker': '12'}]\n",
            "",
        ),
        ("call shop escape", "\x1b[2Jgone\n", ""),
        ("call shop slow seconds=0", "done\n", "progress: 1 of 3 one of three\n"),
        ("call shop slow seconds=0 -q", "done\n", ""),
        ("call shop logo", "[image image/png, 72 B; --save DIR writes it]\n", ""),
        ("read shop shop://notes", "first line\nsecond line\n", ""),
        ("read shop shop://logo --save logo.png", "", "saved: logo.png (72 B)\n"),
        (
            "prompt shop summarize text=5 tone=warm",
            "user:\nSummarize in a warm tone: 5\n",
            "",
        ),
        ("prompts", "shop  1 prompt\n  summarize(text, tone?)\n      Summarize a text.\n", ""),
    ],
)
def test_a_result_is_exactly_what_the_server_said(
    shop: Shell, line: str, stdout: str, stderr: str
) -> None:
    Path("q.txt").write_text("tea")

    done = shop(line)

    assert (done.exit_code, done.stdout, done.stderr) == (0, stdout, stderr)
    if "logo.png" in line:
        assert Path("logo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("line", "code", "stderr"),
    [
        (
            "call shop pay amount=3",
            1,
            "error: pay of shop reports a failure\nError executing tool pay: no 3 coins left\n",
        ),
        (
            "call shop serch query=tea",
            6,
            (
                "error: shop has no tool 'serch': did you mean 'search'?\n"
                "hint: list them: plait tools shop\n"
            ),
        ),
        (
            "call shop search query=tea limit=many",
            2,
            "error: limit: must be integer, not 'many'\nhint: it takes query: string, limit: ",
        ),
        (
            "call shop search limit=5",
            2,
            "error: search needs query\nhint: plait call shop search query=STRING limit=5\n",
        ),
        ("call shop slow seconds=60 --timeout 0.3", 124, "hint: wait longer with --timeout SEC"),
        *(
            (f"call shop slow seconds=0 --timeout={seconds}", 2, "--timeout")
            for seconds in ("nan", "inf", "0", "-1", "soon")
        ),
        ("read shop shop://nothing", 6, "hint: list them: plait resources shop\n"),
    ],
)
def test_a_failure_has_its_code_and_says_what_to_do(
    shop: Shell, line: str, code: int, stderr: str
) -> None:
    done = shop(line)

    assert (done.exit_code, done.stdout) == (code, "")
    assert stderr in done.stderr


@pytest.mark.parametrize(
    ("line", "code", "part"),
    [
        (
            'call shop add {"a":2,"b":3} --json',
            0,
            {
                "server": "shop",
                "tool": "add",
                "is_error": False,
                "structured_content": {"total": 5},
            },
        ),
        ("call shop pay amount=3 --json", 1, {"is_error": True, "tool": "pay"}),
        ("call shop logo --save out --json", 0, {"saved": ["out/shop-logo-1.png"]}),
        ("read shop shop://item/7 --json", 0, {"server": "shop", "uri": "shop://item/7"}),
        ("prompt shop summarize text=5 --json", 0, {"server": "shop", "prompt": "summarize"}),
        ("call shop search --json", 2, {"is_error": True, "content": []}),
    ],
)
def test_with_json_stdout_is_exactly_one_object(
    shop: Shell, line: str, code: int, part: dict[str, object]
) -> None:
    done = shop(line)

    found = objects(done)
    assert (done.exit_code, done.stderr) == (code, "")
    assert {name: found[name] for name in part} == part


def test_arguments_come_from_stdin_and_data_is_saved_beside_earlier_data(shop: Shell) -> None:
    assert objects(shop("call shop add -", stdin='{"a": 2, "b": 3}')) == {"total": 5}
    for number in (1, 2):
        saved = f"out/shop-logo-{number}.png"
        assert shop("call shop logo --save out").stdout == f"[image image/png, 72 B: {saved}]\n"
        assert Path(saved).stat().st_size == 72


def test_a_server_that_is_down_or_crashes_ends_with_code_3_and_its_reason(
    shell: Shell, plait: Plait, shop_config: ShopConfig
) -> None:
    plait.configure(broken=BROKEN, shop=shop_config("--crash"))

    shown, exact = shell("call broken search"), shell("call broken search --json")
    crashed = shell("call shop search query=x")

    assert (shown.exit_code, exact.exit_code, crashed.exit_code) == (3, 3, 3)
    assert "error: broken: " in shown.stderr
    assert "hint: is the server running at 127.0.0.1:9?" in shown.stderr
    assert objects(exact)["error"]["type"] == "transport_error"
    assert exact.stderr == ""
    assert "KeyError: 'SHOP_TOKEN'" in crashed.stderr
    assert "Traceback" not in crashed.stderr


def test_a_real_server_of_others_works(plait: Plait) -> None:
    command = str(Path(sys.executable).with_name("mcp-server-time"))
    plait.configure(time={"command": command, "args": ["--local-timezone", "UTC"]})

    done = plait("call", "time", "get_current_time", "timezone=Europe/Berlin")

    assert done.returncode == 0, done.stderr
    assert "Europe/Berlin" in done.stdout


def test_all_servers_are_shown_and_a_dead_one_ends_with_code_3(
    shell: Shell, plait: Plait, shop_config: ShopConfig, time_config: dict[str, Any]
) -> None:
    broken = {**BROKEN, "required": True}
    plait.configure(shop=shop_config(), time=time_config, broken=broken)

    done, exact = shell("servers"), shell("servers --json")

    assert done.exit_code == exact.exit_code == 3
    head, *lines = (line.split() for line in done.stdout.splitlines())
    columns = "server transport state protocol implementation tools connect"
    assert head == columns.split()
    assert lines[0][:7] == ["✓", "shop", "stdio", "ready", "2026-07-28", "shop", "1.2"]
    assert lines[1][:5] == ["✓", "time", "stdio", "ready", "2026-07-28"]
    assert lines[2][:3] == ["✗", "broken", "http"]
    assert any(line[:1] == ["broken:"] for line in lines[3:])
    assert done.stderr == "hint: plait doctor broken\n"
    assert exact.stderr == ""
    states = [(one["name"], one["state"], one["tool_count"]) for one in objects(exact)]
    assert states[:2] == [("shop", "ready", 6), ("time", "ready", 2)]


def test_tools_are_signatures_with_the_first_line_of_their_description(shop: Shell) -> None:
    done, full = shop("tools"), shop("tools shop --full").stdout

    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    signature = (
        "  search(query: string, limit: integer = 10, ratio: number = 1.0, "
        "exact: boolean = false, tags?: string[], where?: object) [read-only]"
    )
    assert lines[:3] == ["shop  6 tools", signature, "      Search the shop."]
    assert "  pay(amount: integer) [destructive]" in lines
    assert "second paragraph" not in done.stdout
    for part in ("The second paragraph of the description.", '"organic"', "output schema:"):
        assert part in full
    tools = {tool["name"]: tool for tool in objects(shop("tools --json"))}
    assert set(tools) == {"search", "add", "pay", "logo", "escape", "slow"}
    assert tools["search"]["server"] == "shop"
    assert tools["search"]["input_schema"]["required"] == ["query"]
    assert tools["add"]["output_schema"]["required"] == ["total"]


def test_what_is_there_is_listed_when_a_server_is_down_and_others_need_not_be_started(
    shell: Shell, plait: Plait, shop_config: ShopConfig
) -> None:
    plait.configure(broken=BROKEN, shop=shop_config())

    done = shell("tools --json")

    assert done.exit_code == 3
    assert {tool["server"] for tool in objects(done)} == {"shop"}
    assert done.stderr.startswith("warning: broken: ")
    assert shell("tools shop").exit_code == 0


def test_resources_templates_and_prompts_are_listed(shop: Shell) -> None:
    shown, listed = shop("resources").stdout, objects(shop("resources --json"))

    assert shown.splitlines()[0] == "shop  2 resources, 1 template"
    assert "  shop://item/{number}  item" in shown
    assert {(entry["kind"], entry.get("uri") or entry["uriTemplate"]) for entry in listed} == {
        ("resource", "shop://notes"),
        ("resource", "shop://logo"),
        ("template", "shop://item/{number}"),
    }
    prompts = objects(shop("prompts --json"))
    assert [(entry["server"], entry["name"]) for entry in prompts] == [("shop", "summarize")]


@pytest.mark.parametrize("command", ["resources", "prompts"])
def test_a_server_that_has_none_is_no_failure(
    shell: Shell, plait: Plait, time_config: dict[str, Any], command: str
) -> None:
    plait.configure(time=time_config)

    done = shell(command)

    assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"no {command}\n")
