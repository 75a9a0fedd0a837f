"""`plait servers`, `tools`, `resources` and `prompts` against real servers."""

import json
from typing import Any

import pytest

from .conftest import Plait, ShopConfig

BROKEN = {"url": "http://127.0.0.1:9/mcp"}


def test_all_servers_are_shown_and_a_dead_one_ends_with_code_3(
    plait: Plait, shop_config: ShopConfig, time_config: dict[str, Any]
) -> None:
    plait.configure(shop=shop_config(), time=time_config, broken=BROKEN)

    done = plait("servers")

    assert done.returncode == 3, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == [
        "server",
        "transport",
        "state",
        "protocol",
        "implementation",
        "tools",
        "connect",
    ]
    assert lines[1].split()[:7] == ["✓", "shop", "stdio", "ready", "2026-07-28", "shop", "1.2"]
    assert lines[2].split()[:5] == ["✓", "time", "stdio", "ready", "2026-07-28"]
    assert lines[3].split()[:3] == ["✗", "broken", "http"]
    assert any(line.startswith("broken: ") for line in lines[4:])
    assert done.stderr == "hint: plait doctor broken\n"


def test_servers_as_json_are_a_list_and_nothing_else(
    plait: Plait, time_config: dict[str, Any]
) -> None:
    plait.configure(time=time_config)

    done = plait("servers", "--json")

    assert (done.returncode, done.stderr) == (0, "")
    (server,) = json.loads(done.stdout)
    assert (server["name"], server["state"], server["tool_count"]) == ("time", "ready", 2)


def test_a_required_server_that_is_down_is_shown_like_any_other(plait: Plait) -> None:
    plait.configure(broken={**BROKEN, "required": True})

    done = plait("servers", "--json")

    assert done.returncode == 3
    assert json.loads(done.stdout)[0]["name"] == "broken"


def test_tools_are_signatures_with_the_first_line_of_their_description(with_shop: Plait) -> None:
    done = with_shop("tools")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[:3] == [
        "shop  6 tools",
        (
            "  search(query: string, limit: integer = 10, ratio: number = 1.0, "
            "exact: boolean = false, tags?: string[], where?: object) [read-only]"
        ),
        "      Search the shop.",
    ]
    assert "  pay(amount: integer) [destructive]" in done.stdout.splitlines()
    assert "second paragraph" not in done.stdout


def test_full_tools_show_descriptions_and_schemas(with_shop: Plait) -> None:
    done = with_shop("tools", "shop", "--full")

    assert "The second paragraph of the description." in done.stdout
    assert '"organic"' in done.stdout
    assert "output schema:" in done.stdout


def test_tools_as_json_name_what_call_takes(with_shop: Plait) -> None:
    done = with_shop("tools", "--json")

    tools = {tool["name"]: tool for tool in json.loads(done.stdout)}
    assert set(tools) == {"search", "add", "pay", "logo", "escape", "slow"}
    assert tools["search"]["server"] == "shop"
    assert tools["search"]["input_schema"]["required"] == ["query"]
    assert tools["add"]["output_schema"]["required"] == ["total"]


def test_what_is_there_is_listed_when_a_server_is_down(
    plait: Plait, shop_config: ShopConfig
) -> None:
    plait.configure(broken=BROKEN, shop=shop_config())

    done = plait("tools", "--json")

    assert done.returncode == 3
    assert {tool["server"] for tool in json.loads(done.stdout)} == {"shop"}
    assert done.stderr.startswith("warning: broken: ")


def test_only_the_named_servers_are_started(plait: Plait, time_config: dict[str, Any]) -> None:
    plait.configure(broken=BROKEN, time=time_config)

    assert plait("tools", "time").returncode == 0


def test_resources_and_templates_are_listed(with_shop: Plait) -> None:
    shown = with_shop("resources")
    listed = json.loads(with_shop("resources", "--json").stdout)

    assert shown.stdout.splitlines()[0] == "shop  2 resources, 1 template"
    assert "  shop://item/{number}  item" in shown.stdout
    assert {(entry["kind"], entry.get("uri") or entry["uriTemplate"]) for entry in listed} == {
        ("resource", "shop://notes"),
        ("resource", "shop://logo"),
        ("template", "shop://item/{number}"),
    }


def test_prompts_are_listed_with_their_arguments(with_shop: Plait) -> None:
    shown = with_shop("prompts")
    listed = json.loads(with_shop("prompts", "--json").stdout)

    assert shown.stdout.splitlines() == [
        "shop  1 prompt",
        "  summarize(text, tone?)",
        "      Summarize a text.",
    ]
    assert [(entry["server"], entry["name"]) for entry in listed] == [("shop", "summarize")]


@pytest.mark.parametrize("command", ["resources", "prompts"])
def test_a_server_that_has_none_is_no_failure(
    plait: Plait, time_config: dict[str, Any], command: str
) -> None:
    plait.configure(time=time_config)

    done = plait(command)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"no {command}\n")
