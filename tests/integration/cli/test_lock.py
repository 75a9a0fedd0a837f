"""`plait lock`, as a person and as CI see it."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest

from tests.integration.lock.shops import Shop, shop, tools_with

from .conftest import Plait
from .test_terminal import shown_to


@pytest.fixture
def locked(plait: Plait, tmp_path: Path) -> Shop:
    """The program with a shop whose tools are locked."""
    with shop(tmp_path, "stdio") as server:
        plait.configure(shop=server.config)
        anyio.run(server.lock)
    return server


def test_what_changed_is_shown_and_accepted_piece_by_piece(plait: Plait, locked: Shop) -> None:
    by_hand = locked.lockfile.read_text()
    written = plait("lock")
    assert (written.returncode, written.stderr) == (0, "")
    assert written.stdout == f"wrote {locked.lockfile}: 1 server, 5 tools\n"
    assert locked.lockfile.read_text() == by_hand
    locked.write(
        tools_with(
            pay={"description": "Pay a bill of the shop, in coins."},
            find={"annotations": {}},
        )
    )

    checked = plait("lock", "--check")
    updated = plait("lock", "--update", "shop/find")
    left = json.loads(plait("lock", "--check", "--json").stdout)

    assert checked.returncode == 8
    assert checked.stdout == (
        "shop  5 tools\n"
        "  ~ `find` changed\n"
        "      DANGER: it was declared non-destructive, and may now be destructive\n"
        "      annotation read_only_hint: true → nothing\n"
        "  ~ `pay` changed\n"
        "      description: Pay a bill of the shop, in [-euros-]{+coins+}.\n"
        "\n"
        "2 differences from the lockfile\n"
    )
    assert updated.returncode == 0
    assert "`find` changed" in updated.stdout
    assert "1 difference from the lockfile remains" in updated.stderr
    assert [(one["kind"], one["tool"]) for one in left["drift"]] == [("changed", "pay")]


def test_nothing_that_a_server_hides_reaches_the_terminal(plait: Plait, locked: Shop) -> None:
    locked.write(tools_with(pay={"description": "Pay.\x1b[2J\u202e\U000e0041"}))

    code, output = shown_to(plait, "lock", "--check", "-q")
    diagnosed = plait("doctor")

    assert code == 8
    assert "\\u001b[2J\\u202e\\udb40\\udc41" in output.replace("\r\n", "").replace(" ", "")
    assert not {"\u202e", "\U000e0041"} & set(output)
    assert "\x1b[2J" not in output
    assert "differs from the lockfile: `pay` changed" in diagnosed.stdout
    assert "hidden characters in the texts of shop/pay" in diagnosed.stdout


def test_a_server_that_cannot_be_asked_keeps_what_was_locked_of_it(
    plait: Plait, locked: Shop
) -> None:
    before = locked.lockfile.read_text()
    plait.configure(shop={"command": "no-such-program"})

    done = plait("lock")
    wrong = plait("lock", "--check", "--update", "shop")
    locked.lockfile.write_text(before.replace("Pay a bill", "Pay any bill"))
    broken = plait("lock", "--check")

    assert done.returncode == 3
    assert "shop" in done.stderr
    assert wrong.returncode == 2
    assert broken.returncode == 4
    assert "does not match its hash" in broken.stderr
