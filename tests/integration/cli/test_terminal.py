"""What a person sees on a terminal."""

import json
import re
import sys

import pytest

from tests.terminal import on_terminal

from .conftest import SHOP, Plait, ShopConfig


def shown_to(plait: Plait, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run the program with a terminal on stdout and stderr; return its exit code and output."""
    environment = {**plait.environment, "TERM": "xterm-256color", "COLUMNS": "80", **environment}
    return on_terminal(*arguments, environment=environment, folder=plait.folder)


def test_connecting_shows_the_servers_and_leaves_no_trace(plait: Plait) -> None:
    # Not from the nursery: a server that is there at once needs no progress display.
    plait.configure(shop={"command": sys.executable, "args": [SHOP]})

    code, output = shown_to(plait, "tools")

    assert code == 0
    assert "connecting over stdio" in output
    # Every line of the progress display is erased before the result is printed.
    after = output[output.rindex("connecting over stdio") :]
    assert "\x1b[2K" in after
    assert "search" in after


def test_with_json_or_quiet_there_is_no_progress(plait: Plait, shop_config: ShopConfig) -> None:
    plait.configure(shop=shop_config())

    _, exact = shown_to(plait, "tools", "--json")
    _, quiet = shown_to(plait, "tools", "-q")

    assert exact.startswith("[")
    assert "connecting" not in exact + quiet


def test_a_server_cannot_drive_the_terminal(with_shop: Plait) -> None:
    _, output = shown_to(with_shop, "call", "shop", "escape", "-q")

    assert output == "\\x1b[2Jgone\r\n"


def test_no_color_is_respected(with_shop: Plait) -> None:
    _, coloured = shown_to(with_shop, "call", "shop", "nothing", "-q")
    _, plain = shown_to(with_shop, "call", "shop", "nothing", "-q", NO_COLOR="1")

    assert "\x1b[31m" in coloured
    assert plain.startswith("error: shop has no tool 'nothing'")
    assert "\x1b[3" not in plain


def test_a_call_shows_what_it_waits_for_and_leaves_no_trace(with_shop: Plait) -> None:
    _, output = shown_to(with_shop, "call", "shop", "slow", "seconds=1")

    assert "shop/slow … 0 s" in re.sub(r"\x1b\[[\d;?]*\w", "", output)
    # The line is erased before the progress and the result are printed.
    after = output[output.rindex("shop/slow") :]
    assert "\x1b[2K" in after
    assert after.endswith("done\r\n")


@pytest.mark.parametrize("option", ["--json", "-q", "--wire", "-v"])
def test_a_call_shows_no_waiting_line_where_it_would_disturb(with_shop: Plait, option: str) -> None:
    _, output = shown_to(with_shop, "call", "shop", "slow", "seconds=0.5", option)

    assert "…" not in re.sub(r"\{.*", "", output)
    assert ("→ shop" in output) == (option == "--wire")


def test_a_suite_has_one_bar_below_what_failed_which_ends_before_the_report(plait: Plait) -> None:
    (plait.folder / "script.json").write_text('["It is 42."]')
    cases = [
        {"name": name, "question": "?", "checks": [{"contains": text}]}
        for name, text in (("right", "42"), ("wrong", "43"))
    ]
    suite = {"defaults": {"model": "scripted:script.json", "repeat": 2}, "cases": cases}
    (plait.folder / "suite.json").write_text(json.dumps(suite))

    code, output = shown_to(plait, "verify", "suite.json", COLUMNS="100")
    _, quiet = shown_to(plait, "verify", "suite.json", "--quiet", COLUMNS="100")

    lines = re.split(r"\r|\n", re.sub(r"\x1b\[[0-9;?]*m", "", output))
    bars = [line for line in lines if "━" in line]
    assert code == 13
    assert bars[-1].endswith("4 of 4")
    failed = [line for line in lines if "wrong #" in line]
    assert [line.removeprefix("\x1b[2K")[:16] for line in failed] == [
        "failed: wrong #1",
        "failed: wrong #2",
    ]
    assert not any("right #" in line for line in lines)
    # The bar is erased, and below it are the report and the command that opens it.
    after = output[output.rindex("4 of 4") :]
    assert "\x1b[2K" in after
    assert "open: plait view plait-report --open" in after
    assert "━" not in quiet
