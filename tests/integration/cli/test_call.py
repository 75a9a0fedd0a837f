"""`plait call`, `read` and `prompt` against a real server."""

import json
import sys
from pathlib import Path

import pytest

from .conftest import Plait, ShopConfig


def test_pairs_have_the_types_of_the_schema(with_shop: Plait) -> None:
    (with_shop.folder / "query.txt").write_text("tea")

    done = with_shop(
        "call",
        "shop",
        "search",
        "query=@query.txt",
        "limit=5",
        "ratio=0.5",
        "exact=true",
        "tags=hot",
        "tags=5",
        "where.organic=true",
        "where.maker=12",
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "['tea', 5, 0.5, True, ['hot', '5'], {'organic': True, 'maker': '12'}]\n"
    assert done.stderr == ""


def test_arguments_come_from_stdin_too(with_shop: Plait) -> None:
    done = with_shop("call", "shop", "add", "-", stdin='{"a": 2, "b": 3}')

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"total": 5}


def test_with_json_stdout_is_exactly_one_object(with_shop: Plait) -> None:
    done = with_shop("call", "shop", "add", '{"a": 2, "b": 3}', "--json")

    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads(done.stdout)
    assert result["server"] == "shop"
    assert result["tool"] == "add"
    assert result["is_error"] is False
    assert result["structured_content"] == {"total": 5}
    assert [block["type"] for block in result["content"]] == ["text"]


def test_a_real_server_of_others_works(plait: Plait) -> None:
    command = str(Path(sys.executable).with_name("mcp-server-time"))
    plait.configure(time={"command": command, "args": ["--local-timezone", "UTC"]})

    done = plait("call", "time", "get_current_time", "timezone=Europe/Berlin")

    assert done.returncode == 0, done.stderr
    assert "Europe/Berlin" in done.stdout


def test_a_tool_that_reports_a_failure_ends_with_code_1(with_shop: Plait) -> None:
    shown = with_shop("call", "shop", "pay", "amount=3")
    exact = with_shop("call", "shop", "pay", "amount=3", "--json")

    assert (shown.returncode, exact.returncode) == (1, 1)
    assert shown.stdout == ""
    assert shown.stderr.startswith("error: pay of shop reports a failure\n")
    assert "no 3 coins left" in shown.stderr
    result = json.loads(exact.stdout)
    assert result["is_error"] is True
    assert "no 3 coins left" in result["content"][0]["text"]
    assert exact.stderr == ""


def test_an_unknown_tool_is_answered_with_the_nearest(with_shop: Plait) -> None:
    done = with_shop("call", "shop", "serch", "query=tea")

    assert done.returncode == 6
    assert done.stderr.splitlines() == [
        "error: shop has no tool 'serch': did you mean 'search'?",
        "hint: list them: plait tools shop",
    ]


def test_a_value_of_the_wrong_type_is_a_usage_error(with_shop: Plait) -> None:
    done = with_shop("call", "shop", "search", "query=tea", "limit=many")

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(
        "error: limit: must be integer, not 'many'\nhint: it takes query: string, limit: "
    )


def test_a_server_that_is_down_ends_with_code_3(plait: Plait) -> None:
    plait.configure(broken={"url": "http://127.0.0.1:9/mcp"})

    shown = plait("call", "broken", "search")
    exact = plait("call", "broken", "search", "--json")

    assert (shown.returncode, exact.returncode) == (3, 3)
    assert "error: broken: " in shown.stderr
    assert "hint: is the server running at 127.0.0.1:9?" in shown.stderr
    assert json.loads(exact.stdout)["error"]["type"] == "transport_error"
    assert exact.stderr == ""


def test_a_tool_that_takes_too_long_ends_with_code_124(with_shop: Plait) -> None:
    done = with_shop("call", "shop", "slow", "seconds=60", "--timeout", "0.3")

    assert done.returncode == 124
    assert "hint: wait longer with --timeout SECONDS" in done.stderr


@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "-1"])
def test_a_timeout_must_be_a_positive_number(with_shop: Plait, seconds: str) -> None:
    done = with_shop("call", "shop", "slow", "seconds=0", f"--timeout={seconds}")

    assert done.returncode == 2
    assert "--timeout" in done.stderr


def test_progress_goes_to_stderr(with_shop: Plait) -> None:
    done = with_shop("call", "shop", "slow", "seconds=0")
    quiet = with_shop("call", "shop", "slow", "seconds=0", "-q")

    assert done.stdout == quiet.stdout == "done\n"
    assert "progress: 1 of 3 one of three" in done.stderr
    assert quiet.stderr == ""


def test_an_image_is_a_line_until_it_is_saved(with_shop: Plait) -> None:
    shown = with_shop("call", "shop", "logo")
    saved = with_shop("call", "shop", "logo", "--save", "out")
    exact = with_shop("call", "shop", "logo", "--save", "out", "--json")

    assert shown.stdout == "[image image/png, 72 B; --save DIR writes it]\n"
    assert saved.stdout == "[image image/png, 72 B: out/shop-logo-1.png]\n"
    assert json.loads(exact.stdout)["saved"] == [str(Path("out/shop-logo-2.png"))]
    assert (with_shop.folder / "out" / "shop-logo-1.png").stat().st_size == 72


def test_text_in_a_pipe_is_exact(with_shop: Plait) -> None:
    assert with_shop("call", "shop", "escape").stdout == "\x1b[2Jgone\n"


def test_a_resource_is_printed_or_saved(with_shop: Plait) -> None:
    text = with_shop("read", "shop", "shop://notes")
    saved = with_shop("read", "shop", "shop://logo", "--save", "logo.png")
    item = with_shop("read", "shop", "shop://item/7", "--json")

    assert text.stdout == "first line\nsecond line\n"
    assert (saved.stdout, saved.stderr) == ("", "saved: logo.png (72 B)\n")
    assert (with_shop.folder / "logo.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(item.stdout)["contents"][0]["text"] == "item 7"


def test_an_unknown_resource_ends_with_code_6(with_shop: Plait) -> None:
    done = with_shop("read", "shop", "shop://nothing")

    assert done.returncode == 6
    assert "hint: list them: plait resources shop" in done.stderr


def test_a_prompt_is_filled_in(with_shop: Plait) -> None:
    shown = with_shop("prompt", "shop", "summarize", "text=5", "tone=warm")
    exact = with_shop("prompt", "shop", "summarize", "text=5", "--json")

    assert shown.stdout == "user:\nSummarize in a warm tone: 5\n"
    assert json.loads(exact.stdout)["messages"][0]["role"] == "user"


def test_a_server_that_crashes_gives_its_last_words(plait: Plait, shop_config: ShopConfig) -> None:
    plait.configure(shop=shop_config("--crash"))

    done = plait("call", "shop", "search", "query=x")

    assert done.returncode == 3
    assert "KeyError: 'SHOP_TOKEN'" in done.stderr
    assert "Traceback" not in done.stderr
